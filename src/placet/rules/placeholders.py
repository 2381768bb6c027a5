"""What stands in a log for what may not, or cannot, be shown; and how much of a value is shown at most.

Source: REQUIREMENTS B143-B150.
"""

from __future__ import annotations

from typing import Final

DEPTH_LIMIT: Final = "[DEPTH_LIMIT]"
ITEM_LIMIT: Final = "[ITEM_LIMIT]"
TRUNCATED: Final = "[TRUNCATED]"
CYCLE: Final = "[CYCLE]"
REDACTED: Final = "[REDACTED]"
UNREADABLE_MAPPING: Final = "[UNREADABLE_MAPPING]"
UNREADABLE_COLLECTION: Final = "[UNREADABLE_COLLECTION]"
UNREADABLE_ENUM: Final = "[UNREADABLE_ENUM]"
UNSERIALIZABLE: Final = "[UNSERIALIZABLE]"
UNSUPPORTED_KEY: Final = "[UNSUPPORTED_KEY]"
NON_FINITE_FLOAT: Final = "[NON_FINITE_FLOAT]"
GIANT_INTEGER: Final = "[GIANT_INTEGER]"

MAX_DEPTH: Final = 8
"""Containers inside one another that are still shown; the next one is `[DEPTH_LIMIT]`."""
MAX_ITEMS: Final = 256
"""Members shown of one container."""
MAX_TEXT: Final = 2048
"""Characters shown of one text, after scrubbing."""
MAX_INTEGER_BITS: Final = 64
MAX_NODES: Final = 4096
"""Values shown in all: the limits above multiply, and 256 members, eight deep, is more than memory."""
