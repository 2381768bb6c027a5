"""Whose leave a stop needs, who may lift and see it, and what a person's words for a scope mean."""

from __future__ import annotations

import pytest

from placet import Principal
from placet.errors import MisuseError
from placet.model.identifiers import Digest
from placet.model.stopping import StopLeave, StopScope
from placet.rules.stopping import (
    STOP_ALL_SCOPE,
    STOP_SCOPE,
    leave_to_resume,
    leave_to_stop,
    may_lift,
    may_see,
    require_liftable,
)
from placet.rules.stopping import scope_of_words as scope_of

NOBODY = Principal.person("nora", tenant="acme", scopes=("effects.reconcile",))
OWN = Principal.person("olga", tenant="acme", scopes=(STOP_SCOPE,))
ALL = Principal.person("root", tenant="acme", scopes=(STOP_ALL_SCOPE,))
BOTH = Principal.person("rita", tenant="acme", scopes=(STOP_SCOPE, STOP_ALL_SCOPE))

OWN_SCOPES = [
    StopScope.of_tenant("acme"),
    StopScope.of_tool("pay", tenant="acme"),
    StopScope.of_upstream("files", tenant="acme"),
    StopScope.of_run("r1", tenant="acme"),
]
THEIR_SCOPES = [
    StopScope.of_tenant("globex"),
    StopScope.of_tool("pay", tenant="globex"),
    StopScope.of_upstream("files", tenant="globex"),
    StopScope.of_run("r1", tenant="globex"),
]
SHARED_SCOPES = [StopScope.everything(), StopScope.of_tool("pay"), StopScope.of_upstream("files")]

QUARANTINE = StopScope.quarantine("desk.create", Digest("0" * 64))

TENANT, DEPLOYMENT = StopLeave.TENANT, StopLeave.DEPLOYMENT


def test_the_leaves_are_these_scopes_for_they_stand_in_peoples_sign_ins() -> None:
    assert (STOP_SCOPE, STOP_ALL_SCOPE) == ("ops.stop", "ops.stop.all")


@pytest.mark.parametrize("scope", OWN_SCOPES, ids=lambda scope: scope.key)
def test_ones_own_tenant_is_stopped_with_the_least_leave_and_lifted_with_the_most(scope: StopScope) -> None:
    people = (NOBODY, OWN, ALL, BOTH)

    assert [leave_to_stop(person, scope) for person in people] == [None, TENANT, TENANT, TENANT]
    assert [leave_to_resume(person, scope) for person in people] == [None, TENANT, DEPLOYMENT, DEPLOYMENT]


@pytest.mark.parametrize("scope", THEIR_SCOPES + SHARED_SCOPES, ids=lambda scope: scope.key)
def test_what_is_not_ones_own_tenants_needs_the_leave_of_the_deployment_both_ways(scope: StopScope) -> None:
    people = (NOBODY, OWN, ALL, BOTH)

    assert [leave_to_stop(person, scope) for person in people] == [None, None, DEPLOYMENT, DEPLOYMENT]
    assert [leave_to_resume(person, scope) for person in people] == [None, None, DEPLOYMENT, DEPLOYMENT]


@pytest.mark.parametrize(
    ("person", "given_with", "own", "theirs"),
    [
        (NOBODY, TENANT, False, False),
        (NOBODY, DEPLOYMENT, False, False),
        (OWN, TENANT, True, False),
        (OWN, DEPLOYMENT, False, False),  # the deployment's stop is not the tenant's to lift
        (ALL, TENANT, True, True),
        (ALL, DEPLOYMENT, True, True),
        (BOTH, DEPLOYMENT, True, True),
    ],
    ids=lambda value: value.subject if isinstance(value, Principal) else str(value),
)
def test_a_stop_is_never_lifted_with_less_leave_than_it_was_given_with(
    person: Principal, given_with: StopLeave, own: bool, theirs: bool
) -> None:
    assert [may_lift(person, scope, given_with) for scope in OWN_SCOPES] == [own] * len(OWN_SCOPES)
    for scope in THEIR_SCOPES + SHARED_SCOPES:
        assert may_lift(person, scope, given_with) is theirs


@pytest.mark.parametrize("person", [NOBODY, OWN])
def test_anybody_sees_what_halts_its_own_tenant_and_nothing_of_another(person: Principal) -> None:
    assert all(may_see(person, scope) for scope in OWN_SCOPES + SHARED_SCOPES)
    assert not any(may_see(person, scope) for scope in THEIR_SCOPES)
    assert all(may_see(ALL, scope) for scope in THEIR_SCOPES)


# ---------------------------------------------------------------- what a person says

HOW = "A scope is all, tenant, tool:NAME, upstream:NAME, run:ID, or tenant:NAME for another tenant."


@pytest.mark.parametrize(
    ("words", "scope"),
    [
        ("all", StopScope.everything()),
        ("tenant", StopScope.of_tenant("acme")),
        ("tenant:globex", StopScope.of_tenant("globex")),
        ("tenant:a:b", StopScope.of_tenant("a:b")),
        ("tool:pay.now", StopScope.of_tool("pay.now", tenant="acme")),
        ("upstream:files", StopScope.of_upstream("files", tenant="acme")),
        ("run:r:1", StopScope.of_run("r:1", tenant="acme")),
    ],
    ids=lambda value: value if isinstance(value, str) else value.key,
)
def test_words_mean_ones_own_tenant_unless_they_name_another(words: str, scope: StopScope) -> None:
    assert scope_of(words, OWN) == scope


class Text(str):
    """No exact text, whatever it says."""


@pytest.mark.parametrize(
    "words",
    [
        "",
        ":",
        "ALL",
        " all",
        "all:",
        "all:x",
        "tools",
        "tool",
        "run",
        "upstream",
        "quarantine",
        "everything",
        None,
        7,
        b"all",
        Text("all"),
        ["all"],
    ],
    ids=repr,
)
def test_words_that_mean_nothing_are_told_how_a_scope_is_said(words: object) -> None:
    with pytest.raises(MisuseError) as caught:
        scope_of(words, OWN)

    assert caught.value.args[0].startswith(HOW)
    assert caught.value.may_have_acted is False


@pytest.mark.parametrize(
    "words",
    [
        "tenant:",
        "tool:",
        "tool:pay now",
        "upstream:",
        "upstream:Files",
        "upstream:a.b",
        "run:",
        "run:\ud800",
        "tenant:" + "x" * 129,
    ],
)
def test_a_name_that_nothing_bears_is_no_scope(words: str) -> None:
    with pytest.raises(
        MisuseError, match="A stop is of everything, of a tenant, of a tool, of an upstream or of a run"
    ):
        scope_of(words, OWN)


def test_a_quarantine_is_not_begun_or_ended_by_a_stop_and_the_next_step_is_said() -> None:
    with pytest.raises(MisuseError, match="A quarantine is no stop that is given or lifted this way") as caught:
        scope_of(QUARANTINE.key, ALL)

    assert caught.value.hint == ("placet mcp quarantine SERVER TOOL begins one; placet mcp accept SERVER TOOL ends it.")


@pytest.mark.parametrize("leave", StopLeave)
def test_nobody_lifts_a_quarantine_by_lifting_a_stop(leave: StopLeave) -> None:
    assert not may_lift(BOTH, QUARANTINE, leave)


@pytest.mark.parametrize("scope", OWN_SCOPES + SHARED_SCOPES + [StopScope.of_upstream("desk")], ids=lambda s: s.key)
def test_everything_but_a_quarantine_is_stopped_and_lifted_by_people(scope: StopScope) -> None:
    assert require_liftable(scope) is scope
