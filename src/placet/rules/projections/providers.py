"""One tool as the definition that each model provider's API takes.

    contract ── plain root ── strict form? ── yes ── Strict
                                          └── no ─── Loose: the contract's own schema, with the reasons

Nothing here decides what is accepted: a call is held against its contract whatever its model was told. A tool whose
name has dots goes by another one there; the readers of turns find it again.
Source: DESIGN section 5; CASES A15; ADR-0021.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from placet.errors import MisuseError
from placet.model.contract import Contract
from placet.model.exact import ordered
from placet.model.json import JsonObject
from placet.model.projection import Gap, Loose, NoProjection, Projection, Provider, Strict, Why
from placet.rules.projections.aliases import names_of, provider_name
from placet.rules.projections.roots import plain_root, require_contract, without
from placet.rules.projections.sizes import sizes
from placet.rules.projections.strict import StrictForm, strict_form
from placet.rules.projections.subsets import ANTHROPIC, OPENAI, Subset

_ANY_MEMBER = re.compile(r".*", re.S)
_ANTHROPIC_MEMBER = re.compile(r"[a-zA-Z0-9_.-]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Api:
    """One API that takes tool definitions.

    Attributes:
        member: what a top-level member may be called.
        not_at_root: keywords it refuses at the root, strict or not.
        strict, loose: the definition around a hint.
    """

    provider: Provider
    subset: Subset
    member: re.Pattern[str]
    not_at_root: frozenset[str]
    strict: Callable[[Contract, JsonObject], JsonObject]
    loose: Callable[[Contract, JsonObject], JsonObject]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sound:
    """A tool that the API takes in one form or the other, with both."""

    contract: Contract
    root: JsonObject
    form: StrictForm


def openai_tool(contract: Contract) -> Projection:
    """The definition for OpenAI's Chat Completions, and for the many backends that speak its protocol.

    Raises:
        MisuseError: it is not a contract, here and in the functions below.
    """
    return _projection(contract, _OPENAI)


def openai_responses_tool(contract: Contract) -> Projection:
    """The definition for OpenAI's Responses API."""
    return _projection(contract, _OPENAI_RESPONSES)


def anthropic_tool(contract: Contract) -> Projection:
    """The definition for Anthropic's Messages. For all the tools of one request use `anthropic_tools`."""
    return _projection(contract, _ANTHROPIC)


def anthropic_tools(contracts: Sequence[Contract]) -> tuple[Projection, ...]:
    """The definitions of one request to Anthropic's Messages: one for each contract, in their order.

    The strict definitions of one request share a budget, first come, first served; whoever finds it spent is loose.

    Raises:
        MisuseError: it is not a tuple or a list of contracts, or two of them would go by one name there.
    """
    given = ordered(contracts)
    if given is None:
        raise MisuseError("The definitions of one request are made of a tuple or a list of contracts.")
    names_of(given)
    spent: Counter[str] = Counter()
    projections: list[Projection] = []
    for contract in given:
        sound = _looked_at(contract, _ANTHROPIC)
        if isinstance(sound, NoProjection):
            projections.append(sound)
            continue
        cost = Counter(sizes(sound.form.hint)) + Counter(strict_tools=1)
        over = [what for what, most in ANTHROPIC.most_in_request.items() if spent[what] + cost[what] > most]
        if sound.form.reasons or not over:
            spent += Counter() if sound.form.reasons else cost
            projections.append(_best(sound, _ANTHROPIC))
        else:
            reasons = tuple(Gap(pointer="", keyword=what, why=Why.REQUEST_TOO_LARGE) for what in over)
            projections.append(_loose(sound, _ANTHROPIC, reasons))
    return tuple(projections)


def _projection(contract: Contract, api: _Api) -> Projection:
    sound = _looked_at(contract, api)
    return sound if isinstance(sound, NoProjection) else _best(sound, api)


def _looked_at(given: object, api: _Api) -> _Sound | NoProjection:
    contract = require_contract(given)
    root = plain_root(contract)
    if root is None:
        return _none(api, Gap(pointer="", keyword="type", why=Why.ROOT_NOT_PLAIN))
    for name in contract.argument_names:
        if api.member.fullmatch(name) is None:
            return _none(api, Gap(pointer="", keyword="properties", why=Why.NAME_NOT_TAKEN))
    return _Sound(contract=contract, root=root, form=strict_form(root, api.subset))


def _best(sound: _Sound, api: _Api) -> Strict | Loose:
    if sound.form.reasons:
        return _loose(sound, api, sound.form.reasons)
    definition = api.strict(sound.contract, sound.form.hint)
    return Strict(provider=api.provider, definition=definition, left_out=sound.form.left_out)


def _loose(sound: _Sound, api: _Api, reasons: tuple[Gap, ...]) -> Loose:
    hint, gone = without(sound.root, api.not_at_root)
    reasons = tuple(dict.fromkeys((*gone, *reasons)))
    return Loose(provider=api.provider, definition=api.loose(sound.contract, hint), reasons=reasons)


def _none(api: _Api, reason: Gap) -> NoProjection:
    return NoProjection(provider=api.provider, reasons=(reason,))


# ---------------------------------------------------------------- the APIs


def _named(contract: Contract) -> JsonObject:
    return {"name": provider_name(contract.name), "description": contract.description}


_OPENAI = _Api(
    provider=Provider.OPENAI,
    subset=OPENAI,
    member=_ANY_MEMBER,
    not_at_root=frozenset({"oneOf", "anyOf", "allOf", "enum", "const", "not"}),
    strict=lambda contract, hint: {
        "type": "function",
        "function": {**_named(contract), "parameters": hint, "strict": True},
    },
    loose=lambda contract, hint: {
        "type": "function",
        "function": {**_named(contract), "parameters": hint, "strict": False},
    },
)

_OPENAI_RESPONSES = _Api(
    provider=Provider.OPENAI_RESPONSES,
    subset=OPENAI,
    member=_ANY_MEMBER,
    not_at_root=_OPENAI.not_at_root,
    strict=lambda contract, hint: {"type": "function", **_named(contract), "parameters": hint, "strict": True},
    # Said in so many words: a definition that says nothing is made strict by the service, optional members required.
    loose=lambda contract, hint: {"type": "function", **_named(contract), "parameters": hint, "strict": False},
)

_ANTHROPIC = _Api(
    provider=Provider.ANTHROPIC,
    subset=ANTHROPIC,
    member=_ANTHROPIC_MEMBER,
    not_at_root=frozenset({"oneOf", "anyOf", "allOf"}),
    strict=lambda contract, hint: {**_named(contract), "strict": True, "input_schema": hint},
    loose=lambda contract, hint: {**_named(contract), "input_schema": hint},
)
