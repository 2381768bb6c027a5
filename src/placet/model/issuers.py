"""Whose tokens are believed, for what, and what they make of their holder. All of it is the deployment's word."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from placet.model.principal import DEFAULT_ENVIRONMENT, Role, Standing

ClaimPath = tuple[str, ...]
"""A claim by its name, or a member within members; names are exact, and may hold dots."""


class Network(StrEnum):
    """Where an issuer may be. public: the internet. private: also the deployment's own addresses. loopback: this host
    alone, and without TLS; for development.
    """

    PUBLIC = "public"
    PRIVATE = "private"
    LOOPBACK = "loopback"


class Algorithm(StrEnum):
    """How a token may be signed. All of them have a public key, so that whoever can verify cannot sign."""

    RS256 = "RS256"
    RS384 = "RS384"
    RS512 = "RS512"
    PS256 = "PS256"
    PS384 = "PS384"
    PS512 = "PS512"
    ES256 = "ES256"
    ES384 = "ES384"
    ES512 = "ES512"
    ED25519 = "Ed25519"


@dataclass(frozen=True, slots=True, kw_only=True)
class Issuer:
    """One issuer, for one audience.

    Attributes:
        issuer: the exact text of `iss`.
        audience: what has to stand in `aud`.
        jwks_url: where its keys are; found through its discovery document if absent.
        ca_file: who has signed its server's certificate; the usual authorities if absent.
        tenant: of everybody it sends. Without one, `tenant_claim` names a claim whose value `tenants` knows.
        subject_prefix: put before `sub`, so that nobody of one issuer is somebody of another.
        roles: everybody's; `roles_by_value` says what else a value of `roles_claim` gives.
        scopes: everybody's; with a `scopes_claim`, those of them that it names.
        standing: what its people are. A person is only who also shows, for each claim in `person_if`, one of its
            values; everybody else is an agent, and so is whatever says of itself that it is a service.
        longest_seconds: between `iat` and `exp`; a token for longer is refused.
    """

    issuer: str
    audience: str
    algorithms: frozenset[Algorithm] = frozenset({Algorithm.RS256, Algorithm.ES256})
    jwks_url: str | None = None
    network: Network = Network.PUBLIC
    ca_file: Path | None = None
    tenant: str | None = None
    tenant_claim: ClaimPath = ()
    tenants: Mapping[str, str] = field(default_factory=dict)
    environment: str = DEFAULT_ENVIRONMENT
    subject_prefix: str = ""
    roles: frozenset[Role] = frozenset({Role.VIEWER})
    roles_claim: ClaimPath = ()
    roles_by_value: Mapping[str, Role] = field(default_factory=dict)
    scopes: frozenset[str] = frozenset()
    scopes_claim: ClaimPath = ()
    standing: Standing = Standing.AGENT
    person_if: Mapping[str, frozenset[str]] = field(default_factory=dict)
    longest_seconds: float = 86_400.0
