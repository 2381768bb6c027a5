"""What handlers return: held against its contract, sealed for the ledger, and read back from it."""

from __future__ import annotations

from placet.engine.registry import Registry
from placet.errors import InvalidArguments, KeyMaterialError
from placet.model.call import Call
from placet.model.effect import Effect
from placet.model.identifiers import Digest
from placet.model.json import JsonValue
from placet.ports.keys import Keys, KeyState, sealed_under
from placet.rules.canonical import canonical_bytes, sha256_hex
from placet.rules.retention import mark_binding

RECORD_ALTERED = "record_altered"
"""Why a recorded result cannot be shown: somebody changed the row."""
RECORD_PURGED = "record_purged"
"""Why a recorded result cannot be shown: the operation is finished, and what it said was forgotten on purpose."""


class Results:
    """The results of registered tools."""

    def __init__(self, *, registry: Registry, keys: Keys) -> None:
        self._registry = registry
        self._keys = keys

    def checked(self, call: Call, value: object) -> tuple[JsonValue, bytes | None, str | None]:
        """The returned value held against its contract: result and canonical form, or why there is none."""
        try:
            result, canonical = self._registry.require(call.contract.name, None).check_result(value)
        except InvalidArguments as broken:
            return None, None, broken.reason
        return result, canonical, None

    def sealed(self, call: Call, canonical: bytes) -> bytes:
        return self._keys.seal(canonical, bound_to=row_binding(call.principal.tenant, call.operation_key, "result"))

    def recorded(self, call: Call, effect: Effect) -> tuple[JsonValue, str | None]:
        """The recorded result of a finished operation, a fresh copy; or why it cannot be shown."""
        if effect.sealed_result is None:
            has_lost_it = effect.result_digest is not None
            return None, self._why_lost(effect) if has_lost_it else effect.reason or "result_unavailable"
        try:
            binding = row_binding(effect.tenant, effect.operation_key, "result")
            canonical = self._keys.unseal(effect.sealed_result, bound_to=binding)
            if result_digest(canonical) == effect.result_digest:
                return self._registry.require(call.contract.name, None).read_result(canonical), None
        except (KeyMaterialError, InvalidArguments):
            pass
        is_retired = self._keys.state_of(sealed_under(effect.sealed_result)) is KeyState.RETIRED
        return None, "key_retired" if is_retired else RECORD_ALTERED

    def _why_lost(self, effect: Effect) -> str:
        """Purged, if a holder of the key marked this very row so; else somebody took the result out of it."""
        try:
            self._keys.unseal(effect.sealed_arguments, bound_to=mark_binding(effect, effect.result_digest))
            return RECORD_PURGED
        except KeyMaterialError:
            pass
        is_retired = self._keys.state_of(sealed_under(effect.sealed_arguments)) is KeyState.RETIRED
        return "key_retired" if effect.is_purged and is_retired else RECORD_ALTERED


def row_binding(tenant: str, operation_key: str, what: str) -> bytes:
    """What sealed data of a ledger row is bound to: moved to another row it does not open."""
    return canonical_bytes([1, what, tenant, operation_key])


def result_digest(canonical: bytes) -> Digest:
    return Digest(sha256_hex("placet/result/1", canonical))
