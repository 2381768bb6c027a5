"""Every target by its name, which is also the name of its folder in `corpus`."""

from __future__ import annotations

from collections.abc import Callable

from fuzz.targets import audit, canonical, decoding, exports, logs, openapi, proposals, schemas

TARGETS: dict[str, Callable[[bytes], None]] = {
    "audit": audit.check,
    "canonical": canonical.check,
    "decoding": decoding.check,
    "exports": exports.check,
    "logs": logs.check,
    "openapi": openapi.check,
    "proposals": proposals.check,
    "schemas": schemas.check,
}
