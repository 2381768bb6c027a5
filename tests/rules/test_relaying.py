"""What of an upstream's questions may reach a client, and what of a client an upstream hears of."""

from __future__ import annotations

from typing import Any

import pytest

from placet.model.relaying import Ability, Needed, Question
from placet.model.upstreams import Relayed
from placet.rules import relaying

EVERYTHING = frozenset(Relayed)
ALL = frozenset(Ability)
FORM: dict[str, Any] = {"mode": "form", "message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}
PAGE: dict[str, Any] = {"mode": "url", "message": "Sign in.", "url": "https://example.org/in", "elicitationId": "e1"}


def elicit(**params: Any) -> dict[str, Any]:
    return {"method": "elicitation/create", "params": params}


@pytest.mark.parametrize(
    ("capabilities", "abilities"),
    [
        ({}, set()),
        ({"elicitation": {}}, {Ability.FORM}),
        ({"elicitation": {"form": {}}}, {Ability.FORM}),
        ({"elicitation": {"url": {}}}, {Ability.URL}),
        ({"elicitation": {"form": {}, "url": {}}}, {Ability.FORM, Ability.URL}),
        ({"sampling": {}}, {Ability.SAMPLING}),
        ({"sampling": {"tools": {}}}, {Ability.SAMPLING, Ability.SAMPLING_TOOLS}),
        ({"roots": {"listChanged": True}}, {Ability.ROOTS}),
        ({"elicitation": True, "sampling": [], "roots": "yes"}, set()),
    ],
    ids=["none", "empty-elicitation", "form", "url", "both", "sampling", "sampling-tools", "roots", "malformed"],
)
def test_a_client_can_do_what_it_declares_and_nothing_else(capabilities: Any, abilities: set[Ability]) -> None:
    assert relaying.declared_abilities(capabilities) == abilities


@pytest.mark.parametrize("abilities", [frozenset(), frozenset({Ability.URL}), ALL], ids=["none", "one", "all"])
def test_what_an_upstream_hears_of_is_what_is_read_back(abilities: frozenset[Ability]) -> None:
    assert relaying.declared_abilities(relaying.capabilities_of(abilities)) == abilities


@pytest.mark.case("K08")
def test_an_upstream_hears_of_nothing_that_its_operator_did_not_name() -> None:
    assert relaying.shared_abilities(frozenset(), ALL) == frozenset()
    assert relaying.shared_abilities(frozenset({Relayed.RESOURCES, Relayed.PROMPTS, Relayed.LOGGING}), ALL) == set()
    assert relaying.shared_abilities(frozenset({Relayed.SAMPLING}), ALL) == {Ability.SAMPLING, Ability.SAMPLING_TOOLS}
    assert relaying.shared_abilities(frozenset({Relayed.ELICITATION}), ALL) == {Ability.FORM, Ability.URL}
    assert relaying.shared_abilities(frozenset({Relayed.ROOTS}), ALL) == {Ability.ROOTS}
    assert relaying.shared_abilities(EVERYTHING, frozenset({Ability.FORM})) == {Ability.FORM}


@pytest.mark.case("K08")
@pytest.mark.parametrize(
    ("method", "params", "needed"),
    [
        ("elicitation/create", FORM, Ability.FORM),
        ("elicitation/create", {"message": "Who?"}, Ability.FORM),
        ("elicitation/create", PAGE, Ability.URL),
        ("sampling/createMessage", {"messages": []}, Ability.SAMPLING),
        ("sampling/createMessage", {"messages": [], "tools": []}, Ability.SAMPLING_TOOLS),
        ("sampling/createMessage", {"messages": [], "toolChoice": {}}, Ability.SAMPLING_TOOLS),
        ("roots/list", {}, Ability.ROOTS),
    ],
    ids=["form", "form-unsaid", "url", "sampling", "tools", "tool-choice", "roots"],
)
def test_a_question_reaches_only_a_client_that_can_answer_it(
    method: str, params: dict[str, Any], needed: Ability
) -> None:
    assert relaying.refusal_of(method, params, abilities=frozenset({needed})) is None
    refusal = relaying.refusal_of(method, params, abilities=ALL - {needed})
    assert refusal == relaying.NOT_ASKED


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {}),
        ("elicitation/create", {"mode": "voice"}),
        ("elicitation/create", {**PAGE, "url": "javascript:alert(1)"}),
        ("elicitation/create", {**PAGE, "url": "file:///etc/passwd"}),
        ("elicitation/create", {**PAGE, "url": "http://example.org/in"}),
        ("elicitation/create", {**PAGE, "url": "http://localhost.example.org/in"}),
        ("elicitation/create", {"mode": "url"}),
        *(
            ("elicitation/create", {**PAGE, "url": url})
            for url in (
                "http://127.0.0.1:80@evil.example/",
                "http://localhost:x@evil.example/",
                "https://user:pw@evil.example/",
                "https://desk.example\u202e/gnp",
                "https://evil.example\r\nx",
                "https://",
                "https:///x",
                "https://a.example\\@b.example/",
                "https://a.example:port/",
                "http://127.0.0.1.evil.example/",
            )
        ),
    ],
    ids=[
        "a-call",
        "unknown-mode",
        "script",
        "file",
        "clear",
        "lookalike",
        "no-url",
        "user-first",
        "user-port",
        "user",
        "hidden",
        "lines",
        "no-host",
        "empty-host",
        "backslash",
        "no-port",
        "lookalike-number",
    ],
)
def test_what_is_no_question_is_refused_whatever_the_client_can(method: str, params: dict[str, Any]) -> None:
    refusal = relaying.refusal_of(method, params, abilities=ALL)
    assert refusal is not None
    assert refusal.code == -32601


def test_a_page_on_this_host_may_be_opened() -> None:
    local = {**PAGE, "url": "http://127.0.0.1:8080/in"}
    assert relaying.refusal_of("elicitation/create", local, abilities=ALL) is None


def test_what_is_needed_is_every_question_and_the_state_as_it_came() -> None:
    result: Any = {"inputRequests": {"a": elicit(**FORM), "b": {"method": "roots/list"}}, "requestState": "s"}
    assert relaying.needed_of(result, abilities=ALL) == Needed(
        questions=(
            Question(key="a", method="elicitation/create", params=FORM),
            Question(key="b", method="roots/list", params={}),
        ),
        state="s",
    )


def test_an_upstream_may_want_nothing_but_to_be_asked_again() -> None:
    assert relaying.needed_of({"requestState": "s"}, abilities=frozenset()) == Needed(questions=(), state="s")


@pytest.mark.case("K08")
@pytest.mark.parametrize(
    "result",
    [
        {},
        {"inputRequests": {}},
        {"inputRequests": []},
        {"inputRequests": {"a": "who"}},
        {"inputRequests": {"a": {"method": 1}}},
        {"inputRequests": {"a": {"method": "roots/list", "params": []}}},
        {"inputRequests": {"a": elicit(**FORM), "b": {"method": "tools/call"}}},
        {"inputRequests": {"a": elicit(**FORM)}, "requestState": 1},
        {"inputRequests": {str(number): {"method": "roots/list"} for number in range(17)}},
    ],
    ids=["nothing", "empty", "list", "text", "method", "params", "one-of-two", "state", "too-many"],
)
def test_of_several_questions_all_may_be_asked_or_none_is(result: Any) -> None:
    assert relaying.needed_of(result, abilities=ALL) is None


def test_a_question_that_the_client_cannot_answer_holds_back_the_others() -> None:
    result: Any = {"inputRequests": {"a": elicit(**FORM), "b": {"method": "roots/list"}}}
    assert relaying.needed_of(result, abilities=frozenset({Ability.FORM})) is None


def test_of_an_error_only_the_missing_capabilities_are_passed_on() -> None:
    error: Any = {
        "code": -32021,
        "message": "pw=hunter2",
        "data": {"requiredCapabilities": {"sampling": {"note": "hunter2"}, "x-hunter2": {}}, "more": "hunter2"},
    }
    assert relaying.missing_capabilities(error) == {"requiredCapabilities": {"sampling": {}}}


@pytest.mark.parametrize(
    "error",
    [
        {"code": -32020, "data": {"requiredCapabilities": {"sampling": {}}}},
        {"code": -32021},
        {"code": -32021, "data": {"requiredCapabilities": ["sampling"]}},
    ],
    ids=["other-code", "no-data", "a-list"],
)
def test_another_error_misses_no_capability(error: Any) -> None:
    assert relaying.missing_capabilities(error) is None


def test_a_log_message_is_heard_from_its_level_on() -> None:
    heard = [level for level in relaying.LOG_LEVELS if relaying.is_at_least(level, "warning")]
    assert heard == ["warning", "error", "critical", "alert", "emergency"]
    assert not relaying.is_at_least("loud", "debug")
    assert not relaying.is_at_least("error", "loud")
    assert not relaying.is_at_least(3, "debug")


def test_a_stop_of_the_upstream_its_tenant_or_everything_halts_it() -> None:
    assert relaying.halting_scopes("acme", "files") == {
        "all",
        "tenant:acme",
        "upstream:files",
        *(scope for scope in relaying.halting_scopes("acme", "files") if "acme" in scope and "files" in scope),
    }
    assert relaying.halting_scopes("acme", "files") != relaying.halting_scopes("umbrella", "files")


@pytest.mark.case("L04")
@pytest.mark.parametrize(
    ("text", "is_fit"),
    [
        ("Two lines,\n\tone tab.", True),
        ("hidden\u200bwords", False),
        ("turned\u202earound", False),
        ("bell\x07", False),
        ("Two lines\r\nas some write them", True),
        ("over\rwritten", False),
        ("\u26a0\ufe0f Really? \u26a0\ufe0f \u2139", True),
        ("\u26a0\ufe0f" * 32, True),
        ("\u26a0\ufe0f" * 33, False),
        ("\u26a0\ufe0f \u26a0\ufe0e", False),
        ("\u26a0\ufe0f a\ufe0f", False),
        ("\u26a0\ufe0f\u200d", False),
        ("x" * 8_192, True),
        ("x" * 8_193, False),
    ],
    ids=[
        *("lines", "zero-width", "bidirectional", "control", "other lines", "overwritten", "styled", "many styled"),
        *("too many", "styled both ways", "a styled letter", "styled and hidden", "long", "too-long"),
    ],
)
def test_a_description_that_hides_something_is_not_passed_on(text: str, is_fit: bool) -> None:
    assert relaying.is_presentable(text) is is_fit
