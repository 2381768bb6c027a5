"""The digest of a contract stays what it was: waiting approvals name it, and finished operations outlive upgrades."""

from __future__ import annotations

import dataclasses

import pytest

from placet import ApprovalMode, EffectClass, Isolation, Remote, Repair, RetryPolicy, Risk, TextRule
from placet.model.contract import Contract, KeyTemplate
from placet.model.identifiers import Digest
from placet.rules.contracts import contract_digest

BARE = Contract(
    name="look",
    version="1",
    description="",
    arguments_schema={},
    result_schema={},
    argument_names=(),
    effect_class=EffectClass.READ,
    risk=Risk.LOW,
    permission=None,
    approval=ApprovalMode.BY_POLICY,
    isolation=Isolation.THREAD,
    timeout_seconds=10.0,
    retry=RetryPolicy(),
    remote=Remote(),
    max_concurrent=1,
    breaker=None,
    operation_key=None,
    resource=None,
    purpose="act",
    redact=frozenset(),
    wide_fields=frozenset(),
    allowed_tenants=None,
    text_rule=TextRule.GUARDED,
    max_argument_bytes=8_192,
    max_result_bytes=65_536,
    max_depth=32,
    has_probe=False,
    generic_executor_reason=None,
    digest=Digest(""),
)
FULL = Contract(
    name="transfer",
    version="7",
    description="Moves money.",
    arguments_schema={"properties": {"amount": {"type": "number", "maximum": 1e3}}},
    result_schema={"type": "string"},
    argument_names=("amount",),
    effect_class=EffectClass.IRREVERSIBLE,
    risk=Risk.CRITICAL,
    permission="bank.transfer",
    approval=ApprovalMode.ALWAYS,
    isolation=Isolation.PROCESS,
    timeout_seconds=2.5,
    retry=RetryPolicy(max_attempts=2, initial_delay_seconds=0.5, max_delay_seconds=4.0),
    remote=Remote(honours_key=True, key_retention_seconds=60.0, refuses_late=True, arrival_bound_seconds=5.0),
    max_concurrent=1,
    breaker=None,
    operation_key=KeyTemplate(text="pay:{order}", fields=("order",)),
    resource=KeyTemplate(text="account:{to}", fields=("to",)),
    purpose="payroll",
    redact=frozenset({"note", "iban"}),
    wide_fields=frozenset({("order",), ("lines", "*", "id")}),
    allowed_tenants=frozenset({"beta", "acme"}),
    text_rule=TextRule.FREE,
    max_argument_bytes=100,
    max_result_bytes=200,
    max_depth=3,
    has_probe=True,
    generic_executor_reason="known",
    digest=Digest(""),
    repair=frozenset({Repair.DOUBLE_ENCODED, Repair.CODE_FENCE}),
    open_members=("/b", "/a"),
    open_result_members=("/c",),
)
BOUND = dataclasses.replace(BARE, has_precondition=True)
CO_COMMITS = dataclasses.replace(BARE, effect_class=EffectClass.WRITE, remote=Remote(co_commits=True))


@pytest.mark.parametrize(
    ("contract", "digest"),
    [
        (BARE, "79dfe0b28fab5cf0ad1b668663aa76f8380f82eed0b024c6a65ba63e4dfaea94"),
        (FULL, "820ed4a8274917d2881fe9a593dc437c437e8cf57aecfa3b77c26ad95386e56f"),
        (BOUND, "36d98f6bd11859609ccd80297edaac35ad7e48940ddc3baada72950de5d4e617"),
        (CO_COMMITS, "e906edb52d06f0c59fdd1f75c15c369a54e1bcf55758abe55af18e49682cfb6c"),
    ],
    ids=["bare", "full", "bound", "co-commits"],
)
def test_a_promise_keeps_its_digest_from_release_to_release(contract: Contract, digest: str) -> None:
    """Where it has to change, every waiting approval is void: say so in the changelog."""
    assert contract_digest(contract) == digest


def test_a_place_for_wide_integers_is_not_another_that_is_written_alike() -> None:
    nested, single = (frozenset({path}) for path in [("a", "b"), ("ab",)])

    assert contract_digest(dataclasses.replace(BARE, wide_fields=nested)) != contract_digest(
        dataclasses.replace(BARE, wide_fields=single)
    )
