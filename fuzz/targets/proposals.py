"""The protocol gate and the readers of model turns: anything at all becomes a proposal or one of our refusals."""

from __future__ import annotations

import json
from typing import Any

from fuzz.checks import MARKER, check_fault, check_refusal, exactly
from fuzz.choices import Choices
from fuzz.targets.decoding import REASONS
from placet.errors import InvalidArguments, MisuseError, ProtocolRejected
from placet.model.contract import UNKNOWN_TOOL_LABEL
from placet.model.outcome import Outcome, Refused
from placet.model.proposal import Proposal
from placet.rules.decoding import decode_object
from placet.rules.encoding import encode_foreign
from placet.rules.proposals import MAX_BATCH, audit_substitutes, is_call_id, read_batch, read_proposal
from placet.rules.turns import Turn, anthropic_turn, openai_responses_turn, openai_turn
from placet.testing.hostile import HostileValues

FOREIGN_REASONS = REASONS | {"cycle"}
CALL_IDS = ("c1", "A.b_c:d-9", "", "x" * 128, "x" * 129, "-a", "a b", "caf\u00e9", "c1\n")
TOOLS = ("look", "", "x" * 256, "x" * 257)
ATTEMPTS = (1, 100, 0, 101, True, 1.0, "1", None)
MEMBERS = ("call_id", "tool", "arguments", "version", "attempt", "tenant", "approval_id")


def check(data: bytes) -> None:
    """The first byte says what is read: a proposal, a batch, or a turn of one provider."""
    choices = Choices(data)
    hostile = HostileValues(MARKER)
    match choices.below(6):
        case 0:
            _check_proposal(_raw(choices, hostile))
        case 1:
            _check_batch([_raw(choices, hostile) for _ in range(choices.below(5) if choices.below(16) else 129)])
        case 2:
            _check_turn(openai_turn, _chat(choices, hostile), choices)
        case 3:
            _check_turn(openai_responses_turn, _responses(choices, hostile), choices)
        case 4:
            _check_turn(anthropic_turn, _messages(choices, hostile), choices)
        case _:  # the whole response as its own JSON text
            document = _json(choices.rest())
            for read in (openai_turn, openai_responses_turn, anthropic_turn):
                _check_turn(read, document, Choices(b""))
            _check_proposal(document)
    assert not hostile.ran, hostile.ran


# ---------------------------------------------------------------- what is held


def _check_proposal(raw: Any) -> Proposal | None:
    call_id, name, attempt = audit_substitutes(raw)
    assert is_call_id(call_id) and type(attempt) is int and 1 <= attempt <= 100
    assert name is None or type(name) is str
    try:
        proposal = read_proposal(raw)
    except ProtocolRejected as fault:
        _check_rejection(fault)
        return None
    assert (call_id, name, attempt) == (proposal.call_id, proposal.tool, proposal.attempt)
    assert 0 < len(proposal.tool) <= 256 and is_call_id(proposal.call_id)
    assert read_proposal(proposal) == proposal
    _check_arguments(proposal.arguments)
    return proposal


def _check_arguments(arguments: object) -> None:
    """Text is decoded, a mapping is written and then decoded; nothing else happens to either."""
    try:
        text = arguments if type(arguments) is str or type(arguments) is bytes else encode_foreign(arguments)
        value = decode_object(text)
    except InvalidArguments as fault:
        check_refusal(fault, FOREIGN_REASONS)
        return
    assert exactly(decode_object(encode_foreign(value))) == exactly(value)
    if type(arguments) is dict:
        assert exactly(value) == exactly(arguments)


def _check_batch(raw: list[Any]) -> None:
    checked, rejected = read_batch(raw)
    for index, fault in rejected.items():
        assert 0 <= index <= MAX_BATCH
        _check_rejection(fault)
    if not rejected:
        assert [_check_proposal(item) for item in raw] == checked
        assert len({proposal.call_id for proposal in checked}) == len(raw) <= MAX_BATCH


def _check_turn(read: Any, document: Any, choices: Choices) -> None:
    number = choices.one_of((0, 1, 10**6, -1, True, "0"))
    try:
        turn: Turn = read(document, turn=number)
    except MisuseError as fault:
        check_fault(fault)
        return
    assert type(number) is int and number >= 0
    assert read(document, turn=number) == turn, "the same answer, read again, names other calls"
    assert [proposal.call_id for proposal in turn.proposals] == [f"t{number}.{n}" for n in range(len(turn.proposals))]
    assert all(proposal.is_truncated is turn.is_truncated for proposal in turn.proposals)
    checked = [_check_proposal(proposal) for proposal in turn.proposals]
    assert all(proposal is None or proposal.is_truncated is turn.is_truncated for proposal in checked)
    answers = turn.answers([_refused(proposal) for proposal in turn.proposals])
    assert len(answers) == (len(turn.proposals) if read is not anthropic_turn else bool(turn.proposals))
    assert json.loads(json.dumps(answers)) == answers


def _refused(proposal: Proposal) -> Outcome:
    return Refused(call_id=proposal.call_id, tool=UNKNOWN_TOOL_LABEL, code="denied", message="No.")


def _check_rejection(fault: ProtocolRejected) -> None:
    check_fault(fault)
    assert len(str(fault)) < 200


# ---------------------------------------------------------------- what is read


def _raw(choices: Choices, hostile: HostileValues) -> Any:
    kind = choices.below(8)
    if kind == 7:
        return _foreign(choices, hostile)
    members: dict[Any, Any] = {
        "call_id": _mostly(choices, CALL_IDS, hostile),
        "tool": _mostly(choices, TOOLS, hostile),
        "arguments": _arguments(choices, hostile),
    }
    if choices.yes():
        members["version"] = _mostly(choices, ("1", "", None, "x" * 257), hostile)
    if choices.yes():
        members["attempt"] = _mostly(choices, ATTEMPTS, hostile)
    if kind == 6:
        return Proposal(**{"version": None, "attempt": 1, **members})
    if kind == 5:
        name = choices.one_of(MEMBERS)
        members.pop(name, None)
        members[choices.one_of(MEMBERS) if choices.yes() else hostile.key_like(name)] = "x"
    return members


def _arguments(choices: Choices, hostile: HostileValues) -> Any:
    match choices.below(4):
        case 0:
            return {}
        case 1:
            return choices.take(choices.below(64)).decode("utf-8", "surrogateescape")
        case 2:
            return {choices.text(longest=6): _leaf(choices, hostile) for _ in choices.items()}
        case _:
            return _foreign(choices, hostile)


def _leaf(choices: Choices, hostile: HostileValues) -> Any:
    match choices.below(7):
        case 0:
            return choices.one_of((None, True, False, [], {}))
        case 1:
            return choices.integer()
        case 2:
            return choices.double()
        case 3:
            return [_leaf(choices, hostile) for _ in choices.items(most=3)]
        case 4:
            return {choices.text(longest=3): _leaf(choices, hostile) for _ in choices.items(most=3)}
        case 5:
            return choices.text()
        case _:
            return _mostly(choices, (0, "", 1.0), hostile)


def _mostly(choices: Choices, options: tuple[Any, ...], hostile: HostileValues) -> Any:
    return choices.one_of(options) if choices.below(12) != 11 else _foreign(choices, hostile)


def _foreign(choices: Choices, hostile: HostileValues) -> Any:
    return choices.one_of(tuple(hostile.values().values()))()


def _chat(choices: Choices, hostile: HostileValues) -> Any:
    function = {"name": _mostly(choices, TOOLS, hostile), "arguments": _arguments(choices, hostile)}
    call = {"id": _mostly(choices, CALL_IDS, hostile), "type": "function", "function": function}
    odd = {"id": "c2", "type": _mostly(choices, ("custom", "function"), hostile), "custom": {"input": "x"}}
    message = {"tool_calls": _one_of(choices, ([call], [call, call], [call, odd], [], None), hostile)}
    choice = {
        "message": _one_of(choices, (message, None), hostile),
        "finish_reason": _mostly(choices, ("tool_calls", "length", "stop", None), hostile),
    }
    return _one_of(choices, ({"choices": [choice]}, {"choices": [choice, choice]}, {"choices": None}, {}), hostile)


def _responses(choices: Choices, hostile: HostileValues) -> Any:
    item = {
        "type": _mostly(choices, ("function_call", "web_search_call", "computer_call", "message"), hostile),
        "call_id": _mostly(choices, CALL_IDS, hostile),
        "name": _mostly(choices, TOOLS, hostile),
        "arguments": _arguments(choices, hostile),
        "status": _mostly(choices, ("completed", "incomplete", None), hostile),
    }
    if choices.yes():
        item["namespace"] = _mostly(choices, ("ns", "", None), hostile)
    status = _mostly(choices, ("completed", "incomplete", None), hostile)
    return _one_of(choices, ({"output": [item], "status": status}, {"output": None}, {}), hostile)


def _messages(choices: Choices, hostile: HostileValues) -> Any:
    block = {
        "type": _mostly(choices, ("tool_use", "text"), hostile),
        "id": _mostly(choices, CALL_IDS, hostile),
        "name": _mostly(choices, TOOLS, hostile),
    }
    if choices.yes():
        block["input"] = _arguments(choices, hostile)
    reason = _mostly(choices, ("tool_use", "max_tokens", "end_turn", None), hostile)
    return _one_of(choices, ({"content": [block, block], "stop_reason": reason}, {"content": None}), hostile)


def _one_of(choices: Choices, options: tuple[Any, ...], hostile: HostileValues) -> Any:
    """The first option half of the time, so that what lies deeper is reached."""
    if choices.yes():
        return options[0]
    return _mostly(choices, options, hostile)


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
