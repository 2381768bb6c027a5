"""Names that are never mixed up: five ids of a call, and the names of owners, digests and keys."""

from __future__ import annotations

from typing import NewType

RequestId = NewType("RequestId", str)
"""One user request; may span several calls."""
RunId = NewType("RunId", str)
"""One bounded sequence of calls, such as a conversation."""
CallId = NewType("CallId", str)
"""One proposed tool call; comes from the provider and is untrusted text."""
OperationKey = NewType("OperationKey", str)
"""One intended business operation; acts at most once per ledger and tenant."""
ApprovalId = NewType("ApprovalId", str)
"""One question to a person about one exact call."""

Digest = NewType("Digest", str)
"""SHA-256 of a canonical form with its domain, 64 lowercase hex digits; identity, not secrecy."""
Fingerprint = NewType("Fingerprint", str)
"""Keyed HMAC-SHA256, 64 lowercase hex digits; correlates without revealing."""
PolicyVersion = NewType("PolicyVersion", str)
"""Digest of the loaded policy set."""
Token = NewType("Token", str)
"""Made fresh before a claim is submitted; the token on the row says whose claim won."""
OwnerId = NewType("OwnerId", str)
"""One gate in one process; holds leases."""
WriterId = NewType("WriterId", str)
"""One audit chain: one open store in one process."""
