"""Scopes that nothing asks for: a misspelt one gives nothing, and nobody would see it."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import placet
from placet.errors import ConfigurationError
from placet.model.upstreams import StdioWay, Upstream
from placet.proof.doctor.checks import Deployment, Depth, Level, Patient, Saying, ok, skipped
from placet.proof.doctor.scopes import OWN_SCOPES, scopes
from placet.rules.asking import Approvers, AskRule, AskRules
from placet.testing import FakeClock

AGENT = placet.Principal.agent("agent", tenant="acme", roles=("operator",), scopes=("orders.refund",))
MARA = placet.Principal.person("mara", tenant="acme", scopes=("approvals.decide",))


@placet.tool(effect="write", risk="medium", permission="orders.refund")
def refund(order: str) -> str:
    return order


@placet.tool(effect="read")
def look(order: str) -> str:
    return order


class Own:
    """Somebody's own engine, which may ask for anything, and says nothing of that."""


def said(**changes: Any) -> Saying:
    deployment = Deployment(
        store="memory:", key=None, tools=(refund, look), policy=placet.Matrix(), agent=AGENT, people=(MARA,)
    )
    error = ConfigurationError("No.")
    return scopes(
        Patient(
            deployment=replace(deployment, **changes), depth=Depth.NEWEST, clock=FakeClock(), key=__file__, keys=error,  # type: ignore[arg-type]
            store=error, server=None, wall_drift_seconds=lambda: 0.0,
        )
    )  # fmt: skip


def with_scopes(*names: str) -> dict[str, Any]:
    return {"people": (replace(MARA, scopes=frozenset(names)),)}


def test_scopes_of_tools_of_placet_and_of_the_rules_are_known() -> None:
    rules = AskRules(rules=(AskRule(name="r", approvers=Approvers(scopes=frozenset({"treasury.sign"}))),))

    assert said() == ok("every scope that is handed out is asked for by something")
    assert said(agent=None, people=()).level is Level.OK
    assert said(**with_scopes("orders.refund", *OWN_SCOPES)).level is Level.OK
    assert said(**with_scopes("treasury.sign"), policy=placet.Matrix(asks=rules)).level is Level.OK
    assert said(**with_scopes("treasury.sign")).level is Level.WARN


def test_scopes_of_a_manifest_are_known_before_its_tools_are_accepted(tmp_path: Path) -> None:
    manifest = tmp_path / "desk.toml"
    manifest.write_text('[tools.create]\neffect = "write"\nrisk = "medium"\npermission = "desk.create"\n')
    way = StdioWay(command="desk-server", folder=tmp_path)
    upstream = Upstream(name="desk", way=way, manifest=manifest)

    assert said(**with_scopes("desk.create")).level is Level.WARN
    assert said(**with_scopes("desk.create"), upstreams=(upstream,)).level is Level.OK
    manifest.write_text("no manifest")
    assert said(**with_scopes("desk.create"), upstreams=(upstream,)).level is Level.WARN


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (with_scopes("approvals.decied"), "approvals.decied of mara (did you mean approvals.decide?)"),
        (with_scopes("x.y", "b.c"), "b.c of mara; x.y of mara"),
        (
            {"agent": replace(AGENT, scopes=frozenset({"order.refund"}))},
            "order.refund of agent (did you mean orders.refund?)",
        ),
        (
            with_scopes(*(f"{letter}.z" for letter in "abcdefg")),
            "a.z of mara; b.z of mara; c.z of mara; d.z of mara; e.z of mara; and 2 more",
        ),
        (
            with_scopes(*(f"{letter}.z" for letter in "abcdef")),
            "a.z of mara; b.z of mara; c.z of mara; d.z of mara; e.z of mara; and 1 more",
        ),
        (with_scopes("postgresql://mara:pw@db/x"), "... of mara"),
    ],
    ids=["person", "several", "agent", "many", "one more", "address"],
)  # fmt: skip
def test_a_scope_that_nothing_asks_for_is_told_with_its_holder_and_the_one_that_was_meant(
    changes: dict[str, Any], told: str
) -> None:
    saying = said(**changes)

    assert saying.level is Level.WARN
    assert saying.told == f"no tool, no rule and nothing of placet asks for {told}"
    assert saying.next_step == "Correct it, or take it out: placet tools list"


def test_of_an_engine_of_ones_own_only_what_looks_misspelt_is_told() -> None:
    assert said(**with_scopes("treasury.sign"), policy=Own()).level is Level.OK
    assert said(**with_scopes("orders.review"), policy=Own()).level is Level.OK  # like another, and yet none misspelt
    assert "did you mean orders.refund?" in said(**with_scopes("orders.refnud"), policy=Own()).told


@pytest.mark.parametrize("broken", ["tools", "policy"])
def test_where_tools_or_policy_cannot_be_loaded_nothing_is_said(broken: str) -> None:
    saying = said(**with_scopes("x.y"), **{broken: ConfigurationError("No.")})

    assert saying == skipped("tools or policy cannot be loaded")


def test_every_scope_that_placet_asks_for_is_known() -> None:
    found: set[str] = set()
    for room in ("rules", "engine", "console", "http_api", "mcp_server", "worker"):
        package = importlib.util.find_spec(f"placet.{room}")
        for each in pkgutil.iter_modules(package.submodule_search_locations) if package is not None else ():
            module = importlib.import_module(f"placet.{room}.{each.name}")
            found |= {
                value
                for name, value in vars(module).items()
                if name.endswith("_SCOPE") and type(value) is str and re.fullmatch(r"[a-z_]+(?:\.[a-z_]+)+", value)
            }

    assert found == OWN_SCOPES
