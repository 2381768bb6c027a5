"""Whether a schema is as its version makes it, wherever the store is kept."""

from __future__ import annotations

from placet.ports.examining import Layout
from placet.proof.doctor.checks import Saying, fail, ok, warn

_MOST_NAMED = 3


def layout_saying(layout: Layout) -> Saying:
    """Of a schema that says of itself that it is placet's."""
    if layout.version > layout.latest:
        return fail(
            f"the store was made by a newer placet (schema {layout.version}, known here: {layout.latest})",
            "Upgrade placet on this machine before opening the store.",
        )
    if layout.differences:
        named = ", ".join(layout.differences[:_MOST_NAMED])
        more = f" and {len(layout.differences) - _MOST_NAMED} more" if len(layout.differences) > _MOST_NAMED else ""
        return fail(
            f"somebody changed the schema by hand: {named}{more}",
            "Stop all writers, keep it as it is, and restore from a backup: what kept illegal rows out may be gone.",
        )
    if layout.version < layout.latest:
        return warn(
            f"schema {layout.version} becomes {layout.latest} when the store is opened next",
            "Back up store and key first; older versions of placet may refuse it afterwards.",
        )
    return ok(f"schema {layout.version}, as it was made")
