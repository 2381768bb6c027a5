"""Secrets from the operating system."""

from __future__ import annotations

import secrets

from placet.rules.credentials import SECRET_BYTES


class SystemSecrets:
    """Fulfils `ports.sign_in.SecretSource`."""

    def fresh(self) -> bytes:
        return secrets.token_bytes(SECRET_BYTES)
