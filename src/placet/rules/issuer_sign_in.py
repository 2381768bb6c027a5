"""The authorization code flow, as values: what is asked of an issuer, and whether its answer is one to what was asked.

    begun ─ the browser goes to the issuer ─► it comes back with a code ─► code and verifier for an ID token ─► a person

Nothing of a request says where the issuer sends the browser back to: that address is the configuration's, one for each
client, so that no issuer can pass for another. Source: OpenID Connect Core 1.0, section 3.1; Discovery 1.0;
RP-Initiated Logout 1.0; RFC 6749, 7636 (PKCE), 9207 (who answers), 9700.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import quote_plus, urlencode, urlsplit

from placet.errors import ConfigurationError, InvalidArguments, SignInRefused
from placet.model.issuer_sign_in import Attempt, ConsoleClient
from placet.model.issuers import Issuer
from placet.model.principal import Standing
from placet.rules.approvals import instant_text
from placet.rules.canonical import canonical_bytes
from placet.rules.decoding import DecodingLimits, decode_object
from placet.rules.issuers import why_not_fetched
from placet.rules.tokens import SKEW_SECONDS, Token, TokenFault, TokenRefused

ATTEMPT_SECONDS: Final = 600.0
NOT_BEGUN: Final = "sign_in_not_begun"
"""What came is no answer to anything that this browser keeps; an attempt that it keeps may still be under way."""
"""How long a person may take at the issuer."""
ATTEMPT_BINDING: Final = b"placet/issuer-sign-in/1"
CALLBACK: Final = "/sign-in/back/"
_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,39}")
_CLIENT: Final = re.compile(r"[\x21-\x7e]{1,255}")
_ASKED: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,100}")
_CODE: Final = re.compile(r"[\x20-\x7e]{1,4096}")
_MOST_ASKED: Final = 20
_ANSWER_LIMITS: Final = DecodingLimits(max_bytes=65_536, max_depth=6, max_members=500, max_string_characters=20_000)
_OF_ANSWER: Final = ("code", "error", "iss", "state")
_ID_TOKEN_TYPES: Final = frozenset({"jwt", "application/jwt"})


class DiscoveryRefused(Exception):
    """An issuer's document that does not say what is needed; `reason` is one of a few fixed words."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoints:
    """Where an issuer is, by its own word, held against what may be asked at all.

    Attributes:
        is_secret_posted: whether the client's secret goes into the form; it goes into a header otherwise.
        says_who_answers: whether each of its answers has to say `iss`.
        end_session: where its own sign-out is, if it has one.
    """

    authorization: str
    token: str
    is_secret_posted: bool
    says_who_answers: bool
    end_session: str | None


# ---------------------------------------------------------------- configuration


def require_sound(clients: Sequence[ConsoleClient], public_url: str | None) -> None:
    """Raises:
    ConfigurationError: one of them cannot be used, or they have no address to come back to.
    """
    for client in clients:
        _require_one(client)
    if len({client.name for client in clients}) != len(clients):
        raise ConfigurationError("Two ways into the console have the same name.")
    if clients and public_url is None:
        raise ConfigurationError(
            "Issuers cannot send people back to this console: its own address is not known.",
            hint='Say it: [serve] public_url = "https://HOST".',
        )


def _require_one(client: ConsoleClient) -> None:
    if _NAME.fullmatch(client.name) is None:
        raise ConfigurationError(
            f'The console of {client.issuer.issuer!r} needs a name of small letters, digits and -, such as "staff".'
        )
    if _CLIENT.fullmatch(client.client_id) is None:
        raise ConfigurationError(f"The console of {client.issuer.issuer!r} needs the client_id that it has there.")
    if "openid" not in client.asked or len(client.asked) > _MOST_ASKED or not all(map(_ASKED.fullmatch, client.asked)):
        raise ConfigurationError(
            f'The scopes asked of {client.issuer.issuer!r} are names, and "openid" is one of them.'
        )
    if client.issuer.standing is not Standing.PERSON:
        raise ConfigurationError(
            f"Nobody of {client.issuer.issuer!r} is a person, so nobody of it can sign in to the console.",
            hint='Say by which claims a person is known: standing = "person" and person_if.',
        )


def redirect_address(public_url: str, root: str, name: str) -> str:
    """Where an issuer sends the browser back to; it has to be entered there, letter for letter."""
    return f"{public_url}{root}{CALLBACK}{name}"


def id_token_issuer(client: ConsoleClient) -> Issuer:
    """What holds for ID tokens: the issuer's rules, for the audience that this client is."""
    return replace(client.issuer, audience=client.client_id)


# ---------------------------------------------------------------- what an issuer says of itself


def endpoints_of(document: Mapping[str, Any], issuer: Issuer) -> Endpoints:
    """Of a document that is this issuer's own.

    Raises:
        DiscoveryRefused: an address that may not be used, or a flow that it does not know.
    """
    if "code" not in _named(document, "response_types_supported", usual=("code",)):
        raise DiscoveryRefused("no_code_flow")
    if "S256" not in _named(document, "code_challenge_methods_supported", usual=("S256",)):
        raise DiscoveryRefused("no_pkce")
    methods = _named(document, "token_endpoint_auth_methods_supported", usual=("client_secret_basic",))
    end_session = document.get("end_session_endpoint")
    return Endpoints(
        authorization=_address(document, "authorization_endpoint", issuer),
        token=_address(document, "token_endpoint", issuer),
        is_secret_posted="client_secret_basic" not in methods and "client_secret_post" in methods,
        says_who_answers=document.get("authorization_response_iss_parameter_supported") is True,
        end_session=None if end_session is None else _address(document, "end_session_endpoint", issuer),
    )


def _named(document: Mapping[str, Any], name: str, *, usual: tuple[str, ...]) -> frozenset[str]:
    value = document.get(name)
    if value is None:
        return frozenset(usual)
    if type(value) is list and all(type(each) is str for each in value):
        return frozenset(value)
    raise DiscoveryRefused("malformed")


def _address(document: Mapping[str, Any], name: str, issuer: Issuer) -> str:
    value = document.get(name)
    if type(value) is not str or why_not_fetched(value, issuer.network) is not None:
        raise DiscoveryRefused("address")
    return value


# ---------------------------------------------------------------- asking


def challenge_of(verifier: str) -> str:
    """Source: RFC 7636, section 4.2 (S256)."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode("ascii")).digest()).rstrip(b"=").decode()


def authorization_address(endpoints: Endpoints, client: ConsoleClient, attempt: Attempt, *, redirect: str) -> str:
    """Where the browser goes to be asked who it is."""
    return _with_query(
        endpoints.authorization,
        {
            "response_type": "code",
            "client_id": client.client_id,
            "redirect_uri": redirect,
            "scope": " ".join(client.asked),
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": challenge_of(attempt.verifier),
            "code_challenge_method": "S256",
        },
    )


def way_out(endpoints: Endpoints, client: ConsoleClient, *, back: str) -> str | None:
    """Where the issuer's own sign-out is; None where it has none."""
    if endpoints.end_session is None:
        return None
    return _with_query(endpoints.end_session, {"client_id": client.client_id, "post_logout_redirect_uri": back})


def token_request(
    endpoints: Endpoints, client: ConsoleClient, attempt: Attempt, *, code: str, redirect: str, secret: str | None
) -> tuple[bytes, dict[str, str]]:
    """The form that turns a code into an ID token, and the headers that go with it."""
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": redirect,
        "code_verifier": attempt.verifier,
    }
    headers = {"content-type": "application/x-www-form-urlencoded"}
    if secret is None:
        form["client_id"] = client.client_id
    elif endpoints.is_secret_posted:
        form |= {"client_id": client.client_id, "client_secret": secret}
    else:
        pair = f"{quote_plus(client.client_id)}:{quote_plus(secret)}"  # RFC 6749, section 2.3.1
        headers["authorization"] = "Basic " + base64.b64encode(pair.encode("ascii")).decode()
    return urlencode(form).encode("ascii"), headers


def _with_query(address: str, parameters: Mapping[str, str]) -> str:
    return f"{address}{'&' if urlsplit(address).query else '?'}{urlencode(parameters)}"


# ---------------------------------------------------------------- what a browser keeps


def attempt_bytes(attempt: Attempt) -> bytes:
    return canonical_bytes(
        {
            "name": attempt.name,
            "state": attempt.state,
            "nonce": attempt.nonce,
            "verifier": attempt.verifier,
            "wanted": attempt.wanted,
            "began_at": instant_text(attempt.began_at),
        }
    )


def attempt_of(body: bytes) -> Attempt | None:
    """What was sealed; None if it is none of ours."""
    try:
        found: dict[str, Any] = decode_object(body)
        return Attempt(**{**found, "began_at": datetime.fromisoformat(found["began_at"])})
    except (InvalidArguments, KeyError, TypeError, ValueError):
        return None


# ---------------------------------------------------------------- what comes back


def code_of(
    answer: Iterable[tuple[str, str]], attempt: Attempt, endpoints: Endpoints, issuer: Issuer, *, now: datetime
) -> str:
    """The code of an answer to this very attempt, from the issuer that was asked.

    Raises:
        SignInRefused: it is none, with a code of ours that says why; never in the issuer's words.
    """
    pairs = [(name, value) for name, value in answer if name in _OF_ANSWER]
    said = dict(pairs)
    if len(said) != len(pairs):
        raise refused("sign_in_mixed_up")
    if not hmac.compare_digest(said.get("state", "").encode(), attempt.state.encode()):
        raise refused(NOT_BEGUN)
    if not -timedelta(seconds=SKEW_SECONDS) <= now - attempt.began_at < timedelta(seconds=ATTEMPT_SECONDS):
        raise refused("sign_in_too_late")
    if said.get("iss", issuer.issuer) != issuer.issuer or (endpoints.says_who_answers and "iss" not in said):
        raise refused("sign_in_mixed_up")
    if "error" in said:
        raise refused(_ERRORS.get(said["error"], "sign_in_not_given"))
    if _CODE.fullmatch(said.get("code", "")) is None:
        raise refused("sign_in_mixed_up")
    return said["code"]


def id_token_of(body: bytes) -> str:
    """The ID token of an issuer's answer to a code; the access token beside it is not looked at, and kept nowhere.

    Raises:
        SignInRefused: there is none.
    """
    try:
        found = decode_object(body, limits=_ANSWER_LIMITS)
    except InvalidArguments:
        found = {}
    token, kind = found.get("id_token"), found.get("token_type")
    if type(token) is str and type(kind) is str and kind.lower() == "bearer":
        return token
    raise refused("sign_in_not_given")


def require_id_token(token: Token, client: ConsoleClient, attempt: Attempt) -> None:
    """Whether a verified token is the ID token of this attempt, and was given to us and nobody else.

    Raises:
        TokenRefused: it is another sign-in's, another client's, or no ID token. Source: OIDC Core 3.1.3.7.
    """
    claims = token.claims
    audience, party = claims.get("aud"), claims.get("azp")
    is_alone = audience == client.client_id or audience == [client.client_id]
    if (party is not None or not is_alone) and party != client.client_id:
        raise TokenRefused(TokenFault.AUDIENCE)
    if token.kind not in _ID_TOKEN_TYPES:
        raise TokenRefused(TokenFault.HEADER)
    nonce = claims.get("nonce")
    if type(nonce) is not str or not hmac.compare_digest(nonce.encode(), attempt.nonce.encode()):
        raise TokenRefused(TokenFault.NONCE)


# ---------------------------------------------------------------- refusals

_ERRORS: Final = {
    "access_denied": "sign_in_denied",
    "temporarily_unavailable": "sign_in_issuer_busy",
    "server_error": "sign_in_issuer_busy",
}
"""The issuer's words that mean something to a person. All others: it gave nothing. Source: RFC 6749, 4.1.2.1."""

REFUSALS: Final = {
    "sign_in_not_begun": (
        "This browser did not begin this sign-in, or has begun another one since.",
        "Begin again, in this window.",
    ),
    "sign_in_too_late": ("This sign-in took too long.", "Begin again; there are ten minutes."),
    "sign_in_mixed_up": ("The answer that came is not one to this sign-in.", "Begin again. If it goes on, tell whoever "
                         "runs this placet."),
    "sign_in_denied": ("The identity provider did not let you in, or you did not go on there.", "Begin again."),
    "sign_in_issuer_busy": ("The identity provider cannot answer now.", "Begin again in a minute."),
    "sign_in_not_given": (
        "The identity provider did not say who you are.",
        "Begin again. If it goes on, whoever runs this placet finds the reason in its log.",
    ),
    "sign_in_not_a_person": (
        "The identity provider does not show that you are a person, as this placet asks of it.",
        "Sign in there with a second factor, or ask whoever runs this placet which claims it looks for.",
    ),
}  # fmt: skip
"""Why nobody is signed in: what is said, and what to do next."""


def refused(code: str) -> SignInRefused:
    message, hint = REFUSALS[code]
    return SignInRefused(message, code=code, hint=hint)
