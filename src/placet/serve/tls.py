"""TLS of this process's own, from two PEM files. They are read once: a new certificate needs a new process."""

from __future__ import annotations

import ssl

from placet.errors import ConfigurationError
from placet.model.serving import Certificate


def tls_of(certificate: Certificate) -> ssl.SSLContext:
    """TLS 1.2 and later, with the library's own choice of ciphers.

    Raises:
        ConfigurationError: a file is not there, is no such thing, wants a password, or the two do not belong together.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate.chain, certificate.key, password=_no_password)
        return context
    except (OSError, ValueError, _PasswordWanted):
        pass
    raise ConfigurationError(
        f"TLS cannot be served with {str(certificate.chain)!r} and {str(certificate.key)!r}.",
        code="certificate_unusable",
        hint="They are PEM files that this user can read: the certificate with what leads up to it, and its own key, "
        "without a password.",
    )


class _PasswordWanted(Exception):
    pass


def _no_password() -> str:
    raise _PasswordWanted  # and nobody at a terminal is asked
