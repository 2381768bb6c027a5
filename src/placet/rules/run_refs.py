"""A run's name as one piece of an address.

A name is any text, and an address takes no escapes. A plain name stands as it is; any other as `~` and its UTF-8 in
base64url. Every run has one spelling.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode

_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:-]{0,127}")
_CODED = "~"


def run_ref(run_id: str) -> str:
    """The piece. Of what is no text that could be stored it is the piece of no run."""
    if _PLAIN.fullmatch(run_id):
        return run_id
    return _CODED + urlsafe_b64encode(run_id.encode("utf-8", "replace")).rstrip(b"=").decode("ascii")


def run_id_of(ref: str) -> str:
    """The name behind a piece; that of nothing, where it is none of ours."""
    if not ref.startswith(_CODED):
        return ref if run_ref(ref) == ref else ""
    coded = ref.removeprefix(_CODED)
    try:
        run_id = urlsafe_b64decode(coded + "=" * (-len(coded) % 4)).decode()
    except ValueError:
        return ""
    return run_id if run_ref(run_id) == ref else ""
