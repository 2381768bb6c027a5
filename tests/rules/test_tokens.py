"""Whatever text is shown for a token, it is taken apart in one way or refused; nothing else comes out."""

import base64
import json

from hypothesis import given
from hypothesis import strategies as st

from placet.rules.tokens import Token, TokenRefused, taken_apart

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "alg": JSON | st.just("ES256"),
        "kid": JSON | st.just("k1"),
        "typ": JSON | st.sampled_from(["JWT", "at+jwt", "jwt", "JWE"]),
        "jwk": JSON,
        "jku": JSON,
        "x5u": JSON,
        "x5c": JSON,
        "crit": JSON,
        "b64": JSON,
        "zip": JSON,
        "cty": JSON,
        "enc": JSON,
        "x5t": JSON,
    },
)


def encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def outcome(text: str) -> Token | str:
    try:
        return taken_apart(text)
    except TokenRefused as refused:
        return refused.fault.value


@given(st.text(max_size=200) | st.from_regex(r"[A-Za-z0-9_.-]{0,200}", fullmatch=True))
def test_any_text_is_a_token_or_refused(text: str) -> None:
    found = outcome(text)
    assert isinstance(found, Token | str)


@given(HEADERS, st.dictionaries(st.text(max_size=8), JSON, max_size=6), st.binary(min_size=1, max_size=70))
def test_what_is_taken_apart_says_only_what_stands_there_and_chooses_nothing(
    header: dict[str, object], claims: dict[str, object], signature: bytes
) -> None:
    text = f"{encoded(json.dumps(header).encode())}.{encoded(json.dumps(claims).encode())}.{encoded(signature)}"

    found = outcome(text)

    if isinstance(found, Token):
        assert (found.algorithm, found.key_id) == (header["alg"], header["kid"])
        assert found.claims == claims
        assert not header.keys() & {"jwk", "jku", "x5u", "x5c", "crit", "b64", "zip", "cty", "enc"}
        assert str(header.get("typ", "JWT")).lower() in ("jwt", "at+jwt", "application/jwt", "application/at+jwt")


@given(HEADERS, st.binary(min_size=1, max_size=70))
def test_a_token_that_holds_no_object_is_none(header: dict[str, object], payload: bytes) -> None:
    if not payload.startswith(b"{"):
        found = outcome(f"{encoded(json.dumps(header).encode())}.{encoded(payload)}.AAAA")
        assert found == "malformed"
