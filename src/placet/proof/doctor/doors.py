"""Whether the front doors can be opened as `[sign_in]` says, and whether it says anything that is for development."""

from __future__ import annotations

from placet.bootstrap.sign_in import require_sound
from placet.model.admission import Admission
from placet.model.issuers import Network
from placet.proof.doctor.checks import Check, Patient, Saying, ok, warn


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


CHECKS = (Check(id="doors", about="who is let in", look=doors),)
