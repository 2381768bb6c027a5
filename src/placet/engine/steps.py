"""Counts proposals against their run: whose step a proposal is, under which policy, and how many there may be."""

from __future__ import annotations

from placet.engine.settings import GateSettings
from placet.model.call import Call
from placet.model.decision import Decision
from placet.model.identifiers import CallId, Digest, PolicyVersion, RunId
from placet.model.ledger import Step
from placet.model.principal import Principal
from placet.ports.clock import IdSource
from placet.ports.policy import PolicyEngine


class Steps:
    """Makes the step that a store counts in the transaction of whatever becomes of the proposal."""

    def __init__(self, *, policy: PolicyEngine, ids: IdSource, settings: GateSettings) -> None:
        self._policy = policy
        self._ids = ids
        self._settings = settings

    def of_call(self, call: Call, decision: Decision | None) -> Step:
        """The step of a call, under the id its proposer gave it."""
        version = decision.policy_version if decision is not None else self._version()
        origin = call.contract.origin
        pin = None if origin is None else origin.pin
        return self._step(call.principal, call.run_id, call.reply_to, call.fingerprint, version, pin)

    def of_rejected(self, principal: Principal, run_id: RunId, call_id: CallId) -> Step:
        """The step of a proposal that made no call. Nothing says that two of them are the same, so each is a step."""
        return self._step(principal, run_id, call_id, self._ids.new_id("rejected"), self._version())

    def _step(
        self,
        principal: Principal,
        run_id: RunId,
        call_id: CallId,
        fingerprint: str,
        version: PolicyVersion,
        pin: Digest | None = None,
    ) -> Step:
        return Step(
            tenant=principal.tenant,
            run_id=run_id,
            call_id=call_id,
            fingerprint=fingerprint,
            subject=principal.identity,
            policy_version=version,
            max_steps=self._settings.max_steps,
            max_denials=self._settings.max_denials,
            pin=pin,
        )

    def _version(self) -> PolicyVersion:
        try:
            version: object = self._policy.version
        except BaseException:  # a made-up cancellation included: nothing is waited for here
            version = None
        return PolicyVersion(version if type(version) is str and 0 < len(version) <= 200 else "unavailable")
