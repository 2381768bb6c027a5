"""Whether the keys are there, guarded, this store's, and where their rotation stands."""

from __future__ import annotations

import os
from pathlib import Path

from placet.errors import PlacetError
from placet.ports.examining import Examination
from placet.ports.keys import Keys, KeyState
from placet.proof.doctor.checks import (
    Check,
    Patient,
    Saying,
    fail,
    is_key_of,
    of_error,
    of_store_and_any_keys,
    of_store_and_keys,
    ok,
    warn,
)


def key_file(patient: Patient) -> Saying:
    if isinstance(patient.keys, PlacetError):
        return of_error(patient.keys)
    owner = patient.key.stat().st_uid
    if owner not in _owners(Path(patient.deployment.store)):
        return fail(
            f"the key file belongs to another user (uid {owner}) than the store: {patient.key}",
            "Find out who put it there. Whoever owns it can sign approvals.",
        )
    return ok(f"the key file is there, for its owner alone: {patient.key}")


def _owners(store: Path) -> tuple[int, ...]:
    """Who may own a key: the owner of its store, and root."""
    try:
        return store.stat().st_uid, 0
    except OSError:
        return os.geteuid(), 0


def _key_of_store(patient: Patient, store: Examination, keys: Keys) -> Saying:
    if is_key_of(store, keys):
        return ok("the key is this store's")
    return fail(
        "the key is not this store's, or is a copy from before its last rotation",
        "Put the store's own key file back, in its newest copy, or point --key at it.",
    )


def _key_rotation(patient: Patient, store: Examination, keys: Keys) -> Saying:
    named = {head.key_id for head in store.heads()}
    foreign = sorted(key_id for key_id in named if keys.state_of(key_id) is KeyState.UNKNOWN)
    if foreign:
        return fail(
            f"the audit names {len(foreign)} keys that are not in the key file",
            "Is it a copy from before a rotation? Put the newest copy in its place.",
        )
    states = [fact.state for fact in keys.facts()]
    told = ", ".join(
        f"{states.count(state)} {state.value}" for state in (KeyState.CURRENT, KeyState.OLD, KeyState.RETIRED)
    )
    if store.key_check().key_id != keys.current:
        return warn(f"a rotation was interrupted before it was on record ({told})", "placet keys rotate finishes it.")
    return ok(told)


CHECKS = (
    Check(id="key_file", about="the key file", look=key_file),
    Check(id="key_of_store", about="key and store", look=of_store_and_any_keys(_key_of_store)),
    Check(id="key_rotation", about="rotation of keys", look=of_store_and_keys(_key_rotation)),
)
