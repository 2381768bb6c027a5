"""The file with the deployment's terms: closed, read by kinds, and careful where it says nothing."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.errors import ManifestError
from placet.model.contract import (
    DEFAULT_BREAKER,
    ApprovalMode,
    Bound,
    BoundSource,
    Breaker,
    EffectClass,
    Remote,
    RetryPolicy,
    Risk,
    TextRule,
)
from placet.model.upstreams import Condition, Manifest, ProbeTerms, ProbeValue, ToolErrors, ToolTerms, ValueSource
from placet.rules import manifests
from placet.rules.manifest_skeletons import Suggested, skeleton
from placet.rules.manifests import read_manifest

WHOLE = """
[tools.create]
effect = "write"
risk = "medium"
permission = "desk.create"
version = "2"
approval = "always"
operation_key = "ticket:{title}"
resource = "ticket:{title}"
purpose = "tickets"
timeout_seconds = 20
retry = { max_attempts = 2, initial_delay_seconds = 0.5, max_delay_seconds = 3 }
remote = { honours_key = true, key_retention_seconds = 86400, refuses_late = true, arrival_bound_seconds = 1.5 }
max_concurrent = 3
breaker = { faults = 4, within_seconds = 5, open_seconds = 6, probes = 7 }
redact = ["note"]
text = "free"
max_argument_bytes = 100
max_result_bytes = 200
max_depth = 9
allowed_tenants = ["acme"]
retention_seconds = 86400
generic_executor = "it is ours"
open_members = ["/meta", ""]
open_result_members = ["/more"]
bind = { tenant_id = "tenant", by = "subject", run = "run", key = "operation_key", source = { value = ["placet", 1] } }
errors = "refused"
key_header = "Idempotency-Key"
refusals = [409, 422]
reference_at = "/id"

[tools.create.probe]
tool = "find"
arguments = { key = { from = "operation_key" }, t = { from = "tenant" }, q = { from = "argument", at = "/q" }, n = 5 }
items_at = "/tickets"
found_if = [{ at = "/key", equals = { from = "operation_key" } }, { at = "/open", equals = true }]
complete_below = 50
absent_statuses = [404]
result_at = ""
reference_at = "/id"

[tools."repos/get"]
"""
KEY = ProbeValue(source=ValueSource.OPERATION_KEY)


def test_every_member_is_read() -> None:
    manifest = read_manifest("desk", WHOLE)

    assert manifest == Manifest(
        server="desk",
        terms={
            "create": ToolTerms(
                tool="create",
                effect=EffectClass.WRITE,
                risk=Risk.MEDIUM,
                permission="desk.create",
                version="2",
                approval=ApprovalMode.ALWAYS,
                operation_key="ticket:{title}",
                resource="ticket:{title}",
                purpose="tickets",
                timeout_seconds=20.0,
                retry=RetryPolicy(max_attempts=2, initial_delay_seconds=0.5, max_delay_seconds=3.0),
                remote=Remote(
                    honours_key=True, key_retention_seconds=86_400.0, refuses_late=True, arrival_bound_seconds=1.5
                ),
                max_concurrent=3,
                breaker=Breaker(faults=4, within_seconds=5.0, open_seconds=6.0, probes=7),
                redact=("note",),
                text=TextRule.FREE,
                max_argument_bytes=100,
                max_result_bytes=200,
                max_depth=9,
                allowed_tenants=frozenset({"acme"}),
                retention_seconds=86_400.0,
                generic_executor="it is ours",
                open_members=("/meta", ""),
                open_result_members=("/more",),
                bind=(
                    Bound(member="tenant_id", source=BoundSource.TENANT),
                    Bound(member="by", source=BoundSource.SUBJECT),
                    Bound(member="run", source=BoundSource.RUN),
                    Bound(member="key", source=BoundSource.OPERATION_KEY),
                    Bound(member="source", source=BoundSource.FIXED, value=["placet", 1]),
                ),
                errors=ToolErrors.REFUSED,
                key_header="Idempotency-Key",
                refusals=frozenset({409, 422}),
                reference_at="/id",
                probe=ProbeTerms(
                    tool="find",
                    arguments={
                        "key": KEY,
                        "t": ProbeValue(source=ValueSource.TENANT),
                        "q": ProbeValue(source=ValueSource.ARGUMENT, at="/q"),
                        "n": ProbeValue(source=ValueSource.FIXED, value=5),
                    },
                    items_at="/tickets",
                    found_if=(
                        Condition(at="/key", equals=KEY),
                        Condition(at="/open", equals=ProbeValue(source=ValueSource.FIXED, value=True)),
                    ),
                    complete_below=50,
                    absent_statuses=frozenset({404}),
                    result_at="",
                    reference_at="/id",
                ),
            ),
            "repos/get": ToolTerms(
                tool="repos/get", effect=EffectClass.IRREVERSIBLE, risk=Risk.CRITICAL, permission=None
            ),
        },
    )


@pytest.mark.case("L03")
def test_what_a_manifest_does_not_say_is_the_most_careful() -> None:
    (terms,) = read_manifest("desk", "[tools.wipe]").terms.values()

    assert (terms.effect, terms.risk, terms.errors) == (EffectClass.IRREVERSIBLE, Risk.CRITICAL, ToolErrors.UNKNOWN)
    assert (terms.bind, terms.probe, terms.open_members, terms.breaker) == ((), None, (), DEFAULT_BREAKER)


def test_a_breaker_may_be_left_out_and_an_empty_file_has_no_tools() -> None:
    assert read_manifest("desk", "[tools.x]\nbreaker = false").terms["x"].breaker is None
    assert read_manifest("desk", "") == Manifest(server="desk", terms={})


def of_tool(line: str) -> str:
    return f"[tools.x]\n{line}"


def of_probe(line: str, *, found_if: str = '[{ at = "/k", equals = 1 }]') -> str:
    return f'[tools.x.probe]\ntool = "find"\nfound_if = {found_if}\n{line}'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[tools", "it is not sound TOML"),
        ("more = 1", "an unknown member 'more' at the top level"),
        ("tools = 1", "'tools' is one table per tool"),
        ("tools = { x = 1 }", "[tools.x] is a table"),
        ('[tools."two words"]', "which is not 1 to 256 printable ASCII characters"),
        ('[tools."x\\u200b"]', r"'x\u{200b}'"),
        (of_tool("efect = 'read'"), "an unknown member 'efect' at [tools.x]"),
        (of_tool("effect = 'reads'"), "'effect' in [tools.x] is one of read, sensitive_read"),
        (of_tool("effect = 1"), "'effect' in [tools.x] is one of"),
        (of_tool("risk = 'none'"), "'risk' in [tools.x] is one of low, medium"),
        (of_tool("permission = ''"), "'permission' in [tools.x] is a text that is not empty"),
        (of_tool("timeout_seconds = 0"), "'timeout_seconds' in [tools.x] is a number of seconds above 0"),
        (of_tool("timeout_seconds = inf"), "'timeout_seconds' in [tools.x] is a number of seconds above 0"),
        (of_tool("timeout_seconds = nan"), "'timeout_seconds' in [tools.x] is a number of seconds above 0"),
        (of_tool("timeout_seconds = true"), "'timeout_seconds' in [tools.x] is a number of seconds above 0"),
        (of_tool("max_depth = 1.5"), "'max_depth' in [tools.x] is a whole number above 0"),
        (of_tool("max_depth = true"), "'max_depth' in [tools.x] is a whole number above 0"),
        (of_tool("redact = 'note'"), "'redact' in [tools.x] is a list of texts"),
        (of_tool("retry = 3"), "'retry' of [tools.x] is a table"),
        (of_tool("retry = { attempts = 3 }"), "an unknown member 'attempts' at 'retry' of [tools.x]"),
        (of_tool("remote = { honours_key = 'yes' }"), "'honours_key' in 'remote' of [tools.x] is true or false"),
        (of_tool("breaker = true"), "'breaker' of [tools.x] is a table"),
        (of_tool("open_members = ['meta']"), "'open_members' in [tools.x] is a list of JSON Pointers"),
        (of_tool("reference_at = 'id'"), "'reference_at' in [tools.x] is a JSON Pointer"),
        (of_tool("reference_at = '/~2'"), "'reference_at' in [tools.x] is a JSON Pointer"),
        (of_tool("refusals = [200]"), "'refusals' in [tools.x] is a list of HTTP statuses"),
        (of_tool("refusals = [true]"), "'refusals' in [tools.x] is a list of HTTP statuses"),
        (of_tool('key_header = "X: y"'), "'key_header' in [tools.x] is the name of a header"),
        (of_tool("bind = ['t']"), "'bind' in [tools.x] is a table such as"),
        (of_tool("bind = { t = 'nobody' }"), "for 't' one of tenant, subject, run, operation_key"),
        (of_tool("bind = { t = 'value' }"), "for 't' one of tenant, subject, run, operation_key"),
        (of_tool("bind = { t = { value = 1, more = 2 } }"), "for 't' one of tenant"),
        (of_tool("bind = { t = { value = 2026-01-01 } }"), "for 't' one of tenant"),
        (of_tool("errors = 'fine'"), "'errors' in [tools.x] is one of unknown, refused"),
        ("[tools.x.probe]\nfound_if = [{ at = '/k', equals = 1 }]", "'tool' in 'probe' of [tools.x]"),
        (of_probe("", found_if="[]"), "'found_if' in 'probe' of [tools.x] is a list of at least one"),
        (of_probe("", found_if="[{ at = '/k' }]"), "'found_if' in 'probe' of [tools.x] is a list of"),
        (of_probe("", found_if="[{ at = 'k', equals = 1 }]"), "'found_if' in 'probe' of [tools.x] is a list of"),
        (of_probe("", found_if="[{ at = '/k', equals = 2026-01-01 }]"), "made of JSON values; a date is none"),
        (of_probe("arguments = { k = { from = 'moon' } }"), "'arguments' in 'probe' of [tools.x] is made of values"),
        (
            of_probe("arguments = { k = { from = 'argument' } }"),
            "'arguments' in 'probe' of [tools.x] is made of values",
        ),
        (of_probe("arguments = { k = { from = 'value' } }"), "'arguments' in 'probe' of [tools.x] is made of values"),
        (of_probe("complete_below = 5"), "'complete_below' in 'probe' of [tools.x] is about a list"),
        (
            of_probe("items_at = ''\nabsent_if = [{ at = '', equals = 1 }]"),
            "'absent_if' in 'probe' of [tools.x] is about an answer that is no list",
        ),
    ],
    ids=str,
)
def test_what_means_nothing_is_refused_with_its_place(text: str, told: str) -> None:
    with pytest.raises(ManifestError) as caught:
        read_manifest("desk", text)

    assert told in str(caught.value)
    assert caught.value.code == "manifest_invalid" and caught.value.hint


def test_an_unknown_member_is_refused_with_the_nearest_one_that_is_known() -> None:
    with pytest.raises(ManifestError) as caught:
        read_manifest("desk", of_tool("permision = 'x'"))

    assert caught.value.hint == "Did you mean 'permission'?"


def test_a_file_is_repeated_nowhere_in_what_is_said_of_it() -> None:
    with pytest.raises(ManifestError) as caught:
        read_manifest("desk", 'token = "hunter2')

    assert "hunter2" not in str(caught.value)


def test_the_example_of_the_module_is_one() -> None:
    lines = (manifests.__doc__ or "").splitlines()
    example = "\n".join(line.removeprefix("    ") for line in lines if line.startswith("    "))

    (terms,) = read_manifest("desk", example).terms.values()

    assert terms.probe is not None and terms.probe.tool == "find_tickets"


# ---------------------------------------------------------------- the first text


def test_the_first_manifest_is_as_careful_as_can_be_and_can_be_read() -> None:
    text = skeleton("desk", [Suggested(tool="wipe", permission="desk.wipe", about="Wipes it.\nAll of it.")])

    assert r"# Wipes it.\nAll of it." in text
    assert read_manifest("desk", text).terms == {
        "wipe": ToolTerms(
            tool="wipe",
            effect=EffectClass.IRREVERSIBLE,
            risk=Risk.CRITICAL,
            permission="desk.wipe",
            approval=ApprovalMode.ALWAYS,
        )
    }
    assert read_manifest("desk", skeleton("desk", [])).terms == {}


@given(
    tool=st.text(alphabet=st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=60),
    about=st.text(max_size=120),
)
def test_nothing_that_a_server_says_gets_out_of_its_quotes_or_its_comment(tool: str, about: str) -> None:
    text = skeleton("desk", [Suggested(tool=tool, permission=tool, about=about)])

    document: dict[str, Any] = tomllib.loads(text)
    assert document == {
        "tools": {
            tool: {"effect": "irreversible", "risk": "critical", "permission": tool, "approval": "always"},
        }
    }
