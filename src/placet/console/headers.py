"""What every answer of the console tells the browser not to do.

No script but ours, named by a nonce that each answer makes anew; no style, picture, frame or connection from anywhere
else; no text that becomes markup outside the one policy of the vendored library; nothing kept in a cache.
"""

from __future__ import annotations

from starlette.datastructures import MutableHeaders

_FIXED = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=()",
    "Referrer-Policy": "same-origin",  # `no-referrer` would make browsers hide the origin of our own forms from us
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def protect(headers: MutableHeaders, *, nonce: str | None) -> None:
    """Set the headers of an answer; without a nonce it runs no script. What a handler set of them is replaced."""
    for name, value in _FIXED.items():
        headers[name] = value
    headers["Content-Security-Policy"] = content_security_policy(nonce)


def content_security_policy(nonce: str | None) -> str:
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src 'nonce-{nonce}'" if nonce is not None else "script-src 'none'",
            "style-src 'self'",
            "img-src 'self'",
            "connect-src 'self'",
            "form-action 'self'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
            "trusted-types htmx",
            "require-trusted-types-for 'script'",
        )
    )
