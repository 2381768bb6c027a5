"""Key material: masters in a file, one derived key per purpose, and how they are rotated."""

from placet.adapters.keys.file import KeyFile, create_key_file, load_key_file
from placet.adapters.keys.ring import KeyRing

__all__ = ["KeyFile", "KeyRing", "create_key_file", "load_key_file"]
