"""Limits of the arguments that a standing grant covers: a closed language of three.

    "any"                            whatever the contract lets it be
    {"one_of": ["billing", "it"]}    exactly one of these
    {"at_least": 1, "at_most": 100}  a number from the one to the other; either may be left out

Every argument of the contract has one. There is no pattern and no prefix: what begins like an allowed path or address
need not stay within it.
"""

from __future__ import annotations

from typing import Final

from placet.errors import InvalidArguments, LimitsRefused
from placet.model.contract import Contract
from placet.model.grant import AnyValue, Between, Limit, Limits, OneOf
from placet.model.identifiers import Digest
from placet.model.json import JsonObject, JsonValue
from placet.rules.canonical import canonical_bytes, sha256_hex
from placet.rules.decoding import decode_object

MOST_VALUES: Final = 100
"""Values that one argument may be one of: what a person can read."""
ANY: Final = "any"
_EVERYWHERE: Final = frozenset(("*",) * depth for depth in range(1, 64))


def read_limits(said: object, contract: Contract) -> dict[str, Limit]:
    """Limits as people write them, held against the contract: one for each of its arguments, and for nothing else.

    Raises:
        LimitsRefused: an argument has none, there is no such argument, or what stands there is no limit for it.
    """
    if type(said) is not dict or any(type(name) is not str for name in said):
        raise _bad("The limits are an object with one member for each argument.")
    if not set(said) <= set(contract.argument_names):
        raise _bad(f"Only these are arguments of {contract.name}: {', '.join(contract.argument_names) or 'none'}.")
    if missing := sorted(set(contract.argument_names) - set(said)):
        raise _bad(f"Every argument has a limit; there is none for {', '.join(map(repr, missing))}.")
    if contract.open_members:
        raise _bad(f"{contract.name} lets unknown members in, so no limits can say what it is called with.")
    limits = {name: _read_limit(name, limit) for name, limit in said.items()}
    for name, limit in limits.items():
        if name in contract.redact and type(limit) is not AnyValue:
            raise _bad(f"Nobody sees {name!r}, because the contract redacts it; its only limit is 'any'.")
        _check_limit(name, limit)
        if not _may_hold(contract, name, limit):
            raise _bad(f"The limit of {name!r} is of another type than the argument.")
    return limits


def spelled_limits(limits: Limits) -> bytes:
    """The canonical form that is sealed.

    Raises:
        LimitsRefused: it could not be read back; a value is too large, too deep or too long.
    """
    canonical = canonical_bytes(limits_form(limits))
    try:
        limits_of(canonical)
        return canonical
    except InvalidArguments:
        pass
    raise _bad("A value in the limits is too large, too deep or too long to be kept.")


def limits_of(canonical: bytes) -> dict[str, Limit]:
    """Limits as they were sealed.

    Raises:
        InvalidArguments, LimitsRefused: they were not; somebody sealed something else.
    """
    form = decode_object(canonical, wide=_EVERYWHERE)
    return {name: _read_limit(name, limit) for name, limit in form.items()}


def _read_limit(name: str, said: object) -> Limit:
    if type(said) is str and said == ANY:
        return AnyValue()
    if type(said) is dict and set(said) == {"one_of"} and type(said["one_of"]) is list:
        return OneOf(values=tuple(said["one_of"]))
    if type(said) is dict and said and set(said) <= {"at_least", "at_most"}:
        return Between(at_least=said.get("at_least"), at_most=said.get("at_most"))
    raise _bad(f"The limit of {name!r} is none.")


def _check_limit(name: str, limit: Limit) -> None:
    match limit:
        case AnyValue():
            return
        case OneOf(values=values):
            if type(values) is not tuple or not 0 < len(values) <= MOST_VALUES or not _are_spelled(values):
                raise _bad(f"{name!r} is one of 1 to {MOST_VALUES} values, which are JSON.")
        case Between(at_least=least, at_most=most):
            if least is None and most is None:
                raise _bad(f"{name!r} has a bound on one side at least.")
            if not all(bound is None or _is_number(bound) for bound in (least, most)):
                raise _bad(f"The bounds of {name!r} are finite numbers.")
            if least is not None and most is not None and least > most:
                raise _bad(f"No number is within the bounds of {name!r}.")


def _may_hold(contract: Contract, name: str, limit: Limit) -> bool:
    """Whether the argument's schema, as far as it says a type plainly, has one that the limit speaks of."""
    declared = _declared_types(contract, name)
    match limit:
        case OneOf(values=values):
            return declared is None or all(_type_of(value) in declared for value in values)
        case Between():
            return declared is None or "number" in declared
        case AnyValue():
            return True


def _declared_types(contract: Contract, name: str) -> frozenset[str] | None:
    """JSON types that the argument may have, integers as numbers; None where its schema does not say so plainly."""
    properties = contract.arguments_schema.get("properties")
    schema = properties.get(name) if type(properties) is dict else None
    branches = schema.get("anyOf", [schema]) if type(schema) is dict else None
    if type(branches) is not list:
        return None
    found: set[str] = set()
    for branch in branches:
        said = branch.get("type") if type(branch) is dict else None
        types = said if type(said) is list else [said]
        if not all(type(each) is str for each in types):
            return None
        found.update("number" if each == "integer" else str(each) for each in types)
    return frozenset(found)


def _type_of(value: JsonValue) -> str:
    if value is None:
        return "null"
    if type(value) is bool:
        return "boolean"
    if type(value) is str:
        return "string"
    return "number" if _is_number(value) else "array" if type(value) is list else "object"


def _are_spelled(values: tuple[JsonValue, ...]) -> bool:
    try:
        canonical_bytes(list(values))
    except InvalidArguments:
        return False
    return True


def _is_number(value: object) -> bool:
    """An exact int or float; true and false are no numbers."""
    return type(value) is int or (type(value) is float and _are_spelled((value,)))


def _bad(message: str) -> LimitsRefused:
    return LimitsRefused(
        message, hint="""Like {"queue": {"one_of": ["it"]}, "amount": {"at_most": 100}, "note": "any"}."""
    )


def limits_form(limits: Limits) -> JsonObject:
    """Limits as people write them and as they are sealed."""
    return {name: _limit_form(limit) for name, limit in sorted(limits.items())}


def _limit_form(limit: Limit) -> JsonValue:
    match limit:
        case AnyValue():
            return ANY
        case OneOf(values=values):
            return {"one_of": list(values)}
        case Between(at_least=least, at_most=most):
            bounds = {"at_least": least, "at_most": most}
            return {name: bound for name, bound in bounds.items() if bound is not None}


def limits_digest(tool: str, canonical: bytes) -> Digest:
    """Identity of limits for one tool, over their canonical form."""
    return Digest(sha256_hex("placet/limits/1", tool.encode(), canonical))


def are_within(arguments: JsonObject, limits: Limits) -> bool:
    """Whether a call with these arguments is covered. What is limited has to be there; 'any' covers absence too."""
    if not set(arguments) <= set(limits):
        return False
    return all(_is_within(arguments, name, limit) for name, limit in limits.items())


def _is_within(arguments: JsonObject, name: str, limit: Limit) -> bool:
    if type(limit) is AnyValue:
        return True
    if name not in arguments:
        return False
    value = arguments[name]
    match limit:
        case OneOf(values=values):
            return any(_is_same(each, value) for each in values)
        case Between(at_least=least, at_most=most):
            if type(value) is int or type(value) is float:
                return (least is None or value >= least) and (most is None or value <= most)
            return False
        case AnyValue():
            return True


def _is_same(value: JsonValue, other: JsonValue) -> bool:
    """Equal in type and content. A number is its value: a contract's float is `5.0` however people write it."""
    if _is_number(value) and _is_number(other):
        return value == other
    return canonical_bytes(value) == canonical_bytes(other)


def limit_in_words(limit: Limit) -> str:
    match limit:
        case AnyValue():
            return "anything, or nothing"
        case OneOf(values=values):
            spelled = [canonical_bytes(value).decode() for value in values]
            return f"exactly {spelled[0]}" if len(spelled) == 1 else f"one of {', '.join(spelled)}"
        case Between(at_least=least, at_most=most):
            bounds = [("at least", least), ("at most", most)]
            said = [f"{word} {canonical_bytes(bound).decode()}" for word, bound in bounds if bound is not None]
            return f"a number, {' and '.join(said)}"
