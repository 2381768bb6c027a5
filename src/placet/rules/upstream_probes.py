"""A probe by another tool of the same upstream: what it is asked, and what its answer says of the effect.

Whatever the terms do not say for certain is no answer: absence above all is believed only of a list that was not cut,
or of an answer that says in so many words that there is nothing.

Source: DESIGN section 12; ADR-0045.
"""

from __future__ import annotations

from typing import Final

from placet.errors import ContractError
from placet.model.context import Absent, CannotTell, Found, ProbeAnswer, ProbeContext
from placet.model.contract import EffectClass, Risk
from placet.model.json import JsonObject, JsonValue
from placet.model.pins import Definition
from placet.model.upstreams import Condition, ProbeTerms, ProbeValue, ToolTerms, ValueSource
from placet.rules.canonical import canonical_bytes
from placet.rules.pins import raised
from placet.rules.showing import escape_for_people

MAX_REFERENCE_CHARACTERS: Final = 200
_NOTHING: Final = object()
_WITHOUT_TERMS: Final = {True: EffectClass.READ, False: EffectClass.IRREVERSIBLE}
"""What a tool without terms counts as: the server's own word is enough to look, where there is one."""


def refuse_unfit_probe(tool: str, probe: ProbeTerms, asked: Definition, terms: ToolTerms | None) -> None:
    """Refuse a look that would change something, or could never tell: nothing between it and the server asks again.

    Args:
        tool: whose probe it is.
        asked: what was accepted of the tool that looks; terms: the deployment's of it, where it has any.

    Raises:
        ContractError: it may not look, or is asked what it does not take, or not asked what it needs.
    """
    said = terms.effect if terms is not None else _WITHOUT_TERMS[asked.annotations.get("readOnlyHint") is True]
    effect, _ = raised(said, Risk.LOW, asked.annotations)
    if effect.is_write:
        raise _unfit(tool, "has a probe that is not known to read", "Name a tool with terms whose effect is read.")
    declared, required = asked.input_schema.get("properties"), asked.input_schema.get("required")
    takes = frozenset(declared) if isinstance(declared, dict) else frozenset()
    needs = frozenset(each for each in required if isinstance(each, str)) if isinstance(required, list) else frozenset()
    if not needs <= frozenset(probe.arguments) <= takes:
        raise _unfit(
            tool,
            "has a probe whose arguments are not those of the tool that looks",
            "Name arguments that it has, and all that it needs; placet mcp diff shows them.",
        )


def _unfit(tool: str, what: str, hint: str) -> ContractError:
    return ContractError(f"The tool '{escape_for_people(tool[:80])}' {what}.", code="terms_unfit", hint=hint)


def probe_arguments(terms: ProbeTerms, effect: ProbeContext) -> JsonObject | None:
    """What the probe's tool is asked; None where the effect's arguments lack what the terms take from them."""
    asked: JsonObject = {}
    for name, value in terms.arguments.items():
        found = _value(value, effect)
        if found is _NOTHING:
            return None
        asked[name] = found  # type: ignore[assignment]  # anything but the mark is JSON
    return asked


def probe_answer(terms: ProbeTerms, answer: JsonValue, effect: ProbeContext) -> ProbeAnswer:
    """What the answer of the probe's tool says of the effect."""
    if terms.items_at is None:
        return _of_one(terms, answer, effect)
    items = at(answer, terms.items_at)
    if not isinstance(items, list):
        return CannotTell()
    fitting = [item for item in items if _all_hold(terms.found_if, item, effect)]
    if len(fitting) > 1:
        return CannotTell()  # which of them is the effect, nobody can say
    if fitting:
        return _found(terms, fitting[0])
    is_whole = terms.complete_below is not None and len(items) < terms.complete_below
    return Absent() if is_whole else CannotTell()


def _of_one(terms: ProbeTerms, answer: JsonValue, effect: ProbeContext) -> ProbeAnswer:
    if _all_hold(terms.found_if, answer, effect):
        return _found(terms, answer)
    return Absent() if _all_hold(terms.absent_if, answer, effect) else CannotTell()


def _found(terms: ProbeTerms, item: JsonValue) -> Found:
    result = None if terms.result_at is None else at(item, terms.result_at)
    reference = None if terms.reference_at is None else at(item, terms.reference_at)
    return Found(result=None if result is _NOTHING else result, external_reference=reference_text(reference))


def reference_text(value: object) -> str | None:
    """A short text or an integer names the effect in the remote; anything else names nothing."""
    if type(value) is int:
        return str(value)
    is_name = type(value) is str and 0 < len(value) <= MAX_REFERENCE_CHARACTERS and value.isprintable()
    return str(value) if is_name else None


def _all_hold(conditions: tuple[Condition, ...], item: JsonValue, effect: ProbeContext) -> bool:
    """All of at least one: no condition says nothing."""
    return bool(conditions) and all(_holds(each, item, effect) for each in conditions)


def _holds(condition: Condition, item: JsonValue, effect: ProbeContext) -> bool:
    here, wanted = at(item, condition.at), _value(condition.equals, effect)
    if here is _NOTHING or wanted is _NOTHING:
        return False
    return canonical_bytes(here) == canonical_bytes(wanted)  # type: ignore[arg-type]  # anything but the mark is JSON


def _value(value: ProbeValue, effect: ProbeContext) -> object:
    match value.source:
        case ValueSource.FIXED:
            return value.value
        case ValueSource.TENANT:
            return effect.tenant
        case ValueSource.OPERATION_KEY:
            return effect.operation_key
        case ValueSource.ARGUMENT:
            return at(effect.arguments, value.at)


def at(value: JsonValue, pointer: str) -> object:
    """What stands at a JSON Pointer; a mark that equals nothing where nothing does.

    Source: RFC 6901.
    """
    here: JsonValue = value
    for token in pointer.split("/")[1:]:
        name = token.replace("~1", "/").replace("~0", "~")
        if isinstance(here, dict) and name in here:
            here = here[name]
        elif isinstance(here, list) and name.isascii() and name.isdigit() and str(int(name[:6])) == name:
            if int(name) >= len(here):
                return _NOTHING
            here = here[int(name)]
        else:
            return _NOTHING
    return here


def is_pointer(text: str) -> bool:
    """Whether it is a JSON Pointer: empty, or tokens that each begin with a slash, with `~` only in `~0` and `~1`."""
    is_begun = text == "" or text.startswith("/")
    return is_begun and "~" not in text.replace("~0", "").replace("~1", "")
