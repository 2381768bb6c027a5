"""Whether what happens can be announced as `[[notify]]` says. Nothing is sent."""

from __future__ import annotations

from placet.bootstrap.announcing import missing_secrets
from placet.model.destinations import Destination, EmailWay, SecretPlace, SecretRef
from placet.model.issuers import Network
from placet.proof.doctor.checks import Check, Patient, Saying, fail, ok, warn


def announcements(patient: Patient) -> Saying:
    said = patient.deployment.announcements
    if said is None or not said.destinations:
        return ok("nothing is announced: no destination is named")
    for each in said.destinations:
        if missing := missing_secrets(each):
            return fail(
                f"the destination {each.name!r} has nothing it can use in {_place(missing[0])}",
                "Put it there, where whoever announces can read it. That of a webhook is whsec_ and base64.",
            )
    if of_development := [each.name for each in said.destinations if _is_of_development(each)]:
        return warn(
            f"the destination {of_development[0]!r} is reached without TLS, which is for development",
            'Take network = "loopback" out of its [[notify]] before others depend on it.',
        )
    if said.console_url is None:
        return warn(
            "messages link nowhere: whoever is told has to find the console",
            'Say where it is: console_url = "https://HOST/console" in [placet].',
        )
    count = len(said.destinations)
    return ok(f"what happens is announced to {count} destination{'s' if count > 1 else ''}")


def _is_of_development(destination: Destination) -> bool:
    return not isinstance(destination.way, EmailWay) and destination.way.network is Network.LOOPBACK


def _place(ref: SecretRef) -> str:
    kind = "the environment variable" if ref.place is SecretPlace.ENVIRONMENT else "the file"
    return f"{kind} {ref.name}"


CHECKS = (Check(id="announcements", about="who is told", look=announcements),)
