"""`placet config`: what flag, environment and project file say together, and which of them said it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from placet.bootstrap.addresses import is_address, named_store
from placet.cli.ages import age_text
from placet.cli.screen import shown
from placet.cli.session import Session, epilog, new_app, with_session
from placet.cli.settings import FILE_NAME, VARIABLES, Origin, Settings, unknown_variables
from placet.cli.table import COMMANDS, Exit
from placet.model.admission import Admission
from placet.model.principal import Principal
from placet.model.rates import Rate
from placet.model.retention import Retention
from placet.model.serving import Listening
from placet.model.upstreams import OpenApiWay, StdioWay, StreamableWay, Upstream
from placet.rules.addresses import shown_word

app = new_app("config")
_verbs = COMMANDS["config"].verbs


@dataclass(frozen=True, slots=True, kw_only=True)
class _Setting:
    """One setting as it is shown.

    Attributes:
        value: text, or what stands for it; None where nobody said anything and there is no default.
        told: who said it, in words.
    """

    name: str
    value: str | dict[str, Any] | None
    origin: Origin
    told: str


@app.command("show", epilog=epilog())
@with_session
def show_config(
    session: Session,
    with_origin: Annotated[bool, typer.Option("--origin", help="Say who said each one.")] = False,
) -> Exit:
    """Show each setting, after a flag beats the environment, that beats placet.toml, and that the default.

    There is no file per user: people, store and tools must not depend on who asks. Nothing is opened or made.
    """
    settings = _settings(session.settings)
    unknown = unknown_variables()
    if not session.screen.is_text:
        session.screen.document("config/1", _data(settings, unknown))
    else:
        rows = [row for setting in settings for row in _rows(setting)]
        names, values = (max(len(row[at]) for row in rows) for at in (0, 1))
        for name, value, told in rows:
            line = f"{name:<{names}}  {value:<{values}}  {told}" if with_origin else f"{name:<{names}}  {value}"
            session.screen.line(line.rstrip())
    for name, meant in unknown.items():
        probably = f": did you mean {meant}?" if meant is not None else ""
        session.screen.warn(f"placet: the environment variable {shown(name)} is read by nobody{probably}")
    return Exit.OK


def _settings(settings: Settings) -> tuple[_Setting, ...]:
    values: dict[str, str | dict[str, Any] | None] = {
        "config": None if settings.file is None else str(settings.file),
        "store": named_store(settings.store),
        "key": None if settings.key is None and is_address(settings.store) else str(settings.key_file),
        "policy": None if settings.policy is None else str(settings.policy),
        "shadow": None if settings.shadow is None else str(settings.shadow),
        "tools": None if settings.tools is None else shown_word(settings.tools),
        "workflows": None if settings.workflows is None else shown_word(settings.workflows),
        "agent": None if settings.agent is None else _principal(settings.agent),
        "people": {name: _principal(each) for name, each in settings.people.items()} or None,
        "retention": _ages(settings.retention),
        "sign_in": _doors(settings.admission),
        "serve": _listening(settings.listening),
        "upstreams": _upstreams(settings.upstreams),
    }
    return tuple(
        _Setting(name=name, value=value, origin=settings.origins[name], told=_told(name, value, settings))
        for name, value in values.items()
    )


def _told(name: str, value: object, settings: Settings) -> str:
    match settings.origins[name]:
        case Origin.FLAG:
            return f"flag --{name}"
        case Origin.ENVIRONMENT:
            return f"environment {VARIABLES[name]}"
        case Origin.FILE:
            return f"file {FILE_NAME}" if settings.file is None else f"file {settings.file.name}"
        case Origin.DEFAULT:
            if name == "config":
                return "found here or above" if value is not None else f"no {FILE_NAME} here or above"
            if name == "key":
                return "default, beside the store" if value is not None else "nobody: a database needs it named"
            return "default" if value is not None else "nobody"


def _ages(retention: Retention) -> str | None:
    """As the project file says them; None where everything is kept for ever."""
    ages = {"operations": retention.seconds, "audit": retention.audit_seconds}
    return ", ".join(f"{name} {age_text(age)}" for name, age in ages.items() if age is not None) or None


def _doors(admission: Admission) -> str:
    """How often anybody may come, and whose tokens are believed. An address of shared limits may hold a password."""
    rates = f"{_rate(admission.rates.per_principal)} each, {_rate(admission.rates.per_tenant)} per tenant"
    shared = "" if admission.rates.shared_at is None else ", shared"
    issuers = ", ".join(each.issuer for each in admission.issuers)
    clients = ", ".join(f"{each.name} ({each.client_id})" for each in admission.clients)
    told = f"; issuers: {issuers}" if issuers else ""
    return f"{rates}{shared}{told}" + (f"; console through: {clients}" if clients else "")


def _upstreams(upstreams: tuple[Upstream, ...]) -> str | None:
    """By name and kind: an address may hold a secret, and what a process is given may be one."""
    kinds = {StdioWay: "mcp, a process", StreamableWay: "mcp, over HTTP", OpenApiWay: "openapi"}
    return ", ".join(f"{each.name} ({kinds[type(each.way)]})" for each in upstreams) or None


def _listening(said: Listening) -> str:
    """Where it listens and what it is called. Files are named; what is in them is not looked at."""
    parts = [f"{said.host}, port {said.port}"]
    parts += [] if said.public_url is None else [f"as {said.public_url}"]
    parts += [] if said.certificate is None else [f"TLS with {said.certificate.chain}"]
    parts += [f"behind {', '.join(said.trusted_proxies)}"] if said.trusted_proxies else []
    parts += [] if said.metrics_at is None else [f"metrics at {said.metrics_at.host}, port {said.metrics_at.port}"]
    return "; ".join(parts)


def _rate(rate: Rate) -> str:
    return f"{rate.count} in {rate.seconds} s"


def _principal(principal: Principal) -> dict[str, Any]:
    return {
        "subject": principal.subject,
        "tenant": principal.tenant,
        "roles": sorted(role.value for role in principal.roles),
        "scopes": sorted(principal.scopes),
    }


def _rows(setting: _Setting) -> Iterable[tuple[str, str, str]]:
    match setting.value:
        case None:
            yield setting.name, "-", setting.told
        case str() as text:
            yield setting.name, shown(text), setting.told
        case dict() as principal if setting.name == "agent":
            yield setting.name, _words(principal), setting.told
        case dict() as people:
            for name, person in people.items():
                yield f"people.{shown(name)}", _words(person), setting.told


def _words(principal: dict[str, Any]) -> str:
    roles, scopes = (", ".join(principal[name]) or "none" for name in ("roles", "scopes"))
    return shown(f"{principal['subject']} of {principal['tenant']}; roles: {roles}; scopes: {scopes}")


def _data(settings: Iterable[_Setting], unknown: dict[str, str | None]) -> dict[str, Any]:
    return {
        "settings": {
            each.name: {"value": each.value, "origin": each.origin.value, "said_by": each.told} for each in settings
        },
        "unknown_variables": [{"name": name, "did_you_mean": meant} for name, meant in unknown.items()],
    }
