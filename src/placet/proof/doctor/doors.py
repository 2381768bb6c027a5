"""Whether the front doors can be opened as `[sign_in]` says, and whether it says anything that is for development."""

from __future__ import annotations

import os

from placet.bootstrap.sign_in import missing_client_secrets, require_sound
from placet.model.admission import Admission
from placet.model.destinations import SecretPlace
from placet.model.issuers import Network
from placet.model.serving import Listening
from placet.proof.doctor.checks import Check, Patient, Saying, fail, ok, warn
from placet.rules.serving import MCP_PATH, is_this_machine

_HERE = "http://127.0.0.1"


def doors(patient: Patient) -> Saying:
    """Nothing is fetched: an issuer that is down lets nobody in, and is told of in the log and by metrics."""
    admission = patient.deployment.admission
    if admission is None:
        return ok("API keys are known at the front doors, and everybody's requests are limited")
    require_sound(admission)
    if of_development := [each.issuer for each in admission.issuers if each.network is Network.LOOPBACK]:
        return warn(
            f"tokens of {of_development[0]} are believed without TLS, which is for development",
            'Take network = "loopback" out of [[sign_in.issuers]] before others depend on it.',
        )
    return ok(_told(admission))


def _told(admission: Admission) -> str:
    count = len(admission.issuers)
    issuers = "" if not count else f" and tokens of {count} issuer{'s' if count > 1 else ''}"
    shared = "shared by replicas" if admission.rates.shared_at is not None else "counted by each process"
    return f"API keys{issuers} are known; limits are {shared}"


def console(patient: Patient) -> Saying:
    """Whether people have a way into the console, other than the link of a server for development."""
    admission, listening = patient.deployment.admission, patient.deployment.listening
    clients = () if admission is None else admission.clients
    if admission is not None and (missing := missing_client_secrets(admission)):
        kind = "the environment variable" if missing[0].place is SecretPlace.ENVIRONMENT else "the file"
        return fail(
            f"what the console shows an issuer for itself is not in {kind} {missing[0].name}",
            "Put it there, where whoever serves can read it.",
        )
    if clients:
        names = ", ".join(each.name for each in clients)
        return ok(f"people sign in to the console through {names}")
    if listening is not None:
        return warn(
            "nobody can sign in to the console: no issuer has a console",
            "Say what the console is there: [sign_in.issuers.console]. People who decide over the API need none.",
        )
    return ok("the console is for placet serve --dev: no issuer has a console")


def listening(patient: Patient) -> Saying:
    """Whether `placet serve` can be met as `[serve]` says. Nothing is listened at."""
    said = patient.deployment.listening
    if said is None:
        return ok("placet serve listens on this machine alone, unless --host says otherwise")
    certificate = said.certificate
    if certificate is not None:
        for file in (certificate.chain, certificate.key):
            if not os.access(file, os.R_OK):
                return fail(
                    f"the certificate cannot be used: {file} cannot be read", "Put it there: [serve] certificate."
                )
        if certificate.key.stat().st_mode & 0o077:
            return warn(f"others on this machine can read {certificate.key}", f"chmod 600 {certificate.key}")
    if said.metrics_at is not None and not is_this_machine(said.metrics_at.host):
        return warn(
            f"whoever reaches {said.metrics_at.host} reads the metrics of every tenant",
            "Let nobody but your monitoring reach it, or take [serve] metrics out: /metrics needs a scope.",
        )
    if is_in_the_clear(said):
        return warn(
            f"plain HTTP is served at {said.host}",
            "Put TLS in front and name it: [serve] trusted_proxies. Or give it a certificate.",
        )
    return ok(f"placet serve listens at {said.host}, port {said.port}")


def mcp(patient: Patient) -> Saying:
    """Whether MCP clients can come in as the protocol wants it, and where they are told who issues tokens."""
    said, admission = patient.deployment.listening, patient.deployment.admission
    if said is None or not said.mcp:
        return ok("MCP is not served beside the API")
    if is_in_the_clear(said):
        return fail(
            f"MCP is served at {said.host} over plain HTTP, so credentials go over the network in the clear",
            "Put TLS in front and name it: [serve] trusted_proxies. Or give it a certificate.",
        )
    if said.public_url is None and not is_this_machine(said.host):
        return fail(
            "MCP answers requests to the name of this site alone, and the site has none",
            "Say what it is called: [serve] public_url.",
        )
    audience = said.mcp_audience or f"{said.public_url or _HERE}{MCP_PATH}"
    issuers = () if admission is None else admission.issuers
    if issuers and all(each.audience != audience for each in issuers):
        return warn(
            f"no issuer issues tokens for MCP, for which {audience!r} has to stand in aud; API keys are good there",
            "Name an issuer with that audience in [[sign_in.issuers]], or the audience it uses: [serve] mcp_audience.",
        )
    return ok(f"MCP is served at {said.public_url or 'this machine'}{MCP_PATH}")


def is_in_the_clear(said: Listening) -> bool:
    return said.certificate is None and not said.trusted_proxies and not is_this_machine(said.host)


CHECKS = (
    Check(id="doors", about="who is let in", look=doors),
    Check(id="console", about="how people come in", look=console),
    Check(id="listening", about="where it is served", look=listening),
    Check(id="mcp", about="MCP clients", look=mcp),
)
