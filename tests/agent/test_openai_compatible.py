"""A real endpoint, in a server of our own, asked through the SDK."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from placet.agent import OpenAICompatible, calls, text
from placet.errors import ConfigurationError, ModelError
from tests.agent.endpoint import endpoint

SECRET = "hunter2-in-the-answer"
HELLO: Any = [{"role": "user", "content": "hello"}]
TOOL: Any = {"type": "function", "function": {"name": "look", "description": "", "parameters": {"type": "object"}}}


async def test_the_conversation_and_the_tools_are_sent_and_the_answer_comes_as_it_was() -> None:
    said = calls(("look", '{"a": 1, "a": 2}'))
    with endpoint([said]) as there:
        async with OpenAICompatible(model="m", base_url=there.url, api_key="k") as model:
            assert await model.answer(HELLO, [TOOL]) == said

    (credential, asked), *more = there.asked
    assert (credential, more) == ("Bearer k", [])
    assert asked == {"model": "m", "messages": HELLO, "tools": [TOOL]}


async def test_without_tools_none_are_named() -> None:
    with endpoint([text("hi")]) as there:
        async with OpenAICompatible(model="m", base_url=there.url, api_key="k") as model:
            await model.answer(HELLO, [])

    assert set(there.asked[0][1]) == {"model", "messages"}


async def test_a_fault_of_the_endpoint_is_asked_again_and_then_told_without_its_words() -> None:
    answer = {"error": {"message": SECRET, "type": SECRET, "code": SECRET}}
    with endpoint([(503, answer), (200, text("hi"))]) as there:
        async with OpenAICompatible(model="m", base_url=there.url, api_key="k") as model:
            assert (await model.answer(HELLO, []))["choices"]
    with endpoint([(500, answer)] * 2) as there:
        async with OpenAICompatible(model="m", base_url=there.url, api_key="k", max_retries=1) as model:
            with pytest.raises(ModelError) as caught:
                await model.answer(HELLO, [])

    assert (len(there.asked), caught.value.code, caught.value.status) == (2, "model_unavailable", 500)
    assert (caught.value.retryable, caught.value.may_have_acted) == (True, False)
    _holds_nothing(caught.value)


@pytest.mark.parametrize("status", [400, 401, 404])
async def test_a_refusal_is_not_asked_again(status: int) -> None:
    with endpoint([(status, {"error": {"message": SECRET}})] * 3) as there:
        async with OpenAICompatible(model="m", base_url=there.url, api_key="k") as model:
            with pytest.raises(ModelError) as caught:
                await model.answer(HELLO, [])

    assert (len(there.asked), caught.value.code, caught.value.retryable) == (1, "model_refused", False)
    _holds_nothing(caught.value)


async def test_an_endpoint_that_is_not_there_is_told() -> None:
    with endpoint([]) as there:
        pass
    async with OpenAICompatible(model="m", base_url=there.url, api_key="k", max_retries=0) as model:
        with pytest.raises(ModelError) as caught:
            await model.answer(HELLO, [])

    assert (caught.value.code, caught.value.status) == ("model_unavailable", None)
    assert there.url.split("/")[2] in str(caught.value)  # where nobody answered
    _holds_nothing(caught.value)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"[]", id="list"),
        pytest.param(f'{{"choices": "{SECRET}'.encode(), id="half"),
        pytest.param(f'{{"choices": [], "choices": ["{SECRET}"]}}'.encode(), id="twice"),
        pytest.param(b'{"choices": NaN}', id="nan"),
        pytest.param(b'{"a": "' + b"x" * (4 * 1024 * 1024) + b'"}', id="huge"),
        pytest.param(b"\xff\xfe", id="not-utf-8"),
        pytest.param(gzip.compress(b"{}"), id="not-json"),
    ],
)
async def test_what_is_no_sound_json_object_is_no_answer(body: bytes) -> None:
    with endpoint([body]) as there:
        async with OpenAICompatible(model="m", base_url=there.url, api_key="k", max_retries=0) as model:
            with pytest.raises(ModelError) as caught:
                await model.answer(HELLO, [])

    assert caught.value.code == "model_answer_malformed"
    _holds_nothing(caught.value)


async def test_without_a_credential_it_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ConfigurationError) as caught:
        OpenAICompatible(model="m", base_url="http://127.0.0.1:9/v1")

    assert caught.value.code == "model_key_missing"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_credential_for_this_machine_goes_by_no_proxy(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with endpoint([text("hi")]) as there, endpoint([text("from the proxy")]) as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url.removesuffix("/v1"))
        address = there.url.replace("127.0.0.1", host)
        async with OpenAICompatible(model="m", base_url=address, api_key=SECRET, max_retries=0) as model:
            await model.answer(HELLO, [])

    assert (len(there.asked), proxy.asked) == (1, [])


async def test_an_endpoint_elsewhere_is_asked_as_the_deployment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with endpoint([text("hi")]) as proxy:
        for name in ("HTTP_PROXY", "http_proxy"):
            monkeypatch.setenv(name, proxy.url.removesuffix("/v1"))
        async with OpenAICompatible(model="m", base_url="http://models.example/v1", max_retries=0) as model:
            await model.answer(HELLO, [])

    assert [credential for credential, _ in proxy.asked] == ["Bearer none"]


@pytest.mark.parametrize(
    "address",
    ["http://models.example/v1", "http://10.0.0.7:11434/v1", "http://localhost.example/v1", "http://127.1.example"],
)
@pytest.mark.parametrize("place", ["given", "environment"])
def test_a_credential_goes_to_no_other_host_over_plain_http(
    address: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    if place == "environment":
        monkeypatch.setenv("OPENAI_BASE_URL", address)
    with pytest.raises(ConfigurationError) as caught:
        OpenAICompatible(model="m", base_url=address if place == "given" else None)

    assert caught.value.code == "model_key_exposed"
    assert address.split("/")[2] in str(caught.value)
    _holds_nothing(caught.value)


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("https://models.example/v1", "models.example"),
        ("http://localhost:11434/v1", "localhost:11434"),
        ("http://127.0.0.2/v1", "127.0.0.2"),
        ("http://[::1]:8/v1", "[::1]:8"),
        (f"https://user:{SECRET}@models.example:8443/{SECRET}/v1?key={SECRET}", "models.example:8443"),
    ],
)
async def test_it_goes_to_others_over_https_and_to_this_machine_as_it_is(address: str, host: str) -> None:
    async with OpenAICompatible(model="m", base_url=address, api_key="k") as model:
        assert model.host == host


async def test_an_endpoint_elsewhere_over_plain_http_is_asked_without_a_credential(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    async with OpenAICompatible(model="m", base_url="http://10.0.0.7:11434/v1") as model:
        assert model.host == "10.0.0.7:11434"


@pytest.mark.parametrize("address", ["nonsense", "ftp://models.example/v1", "http://", "http://\0"])
def test_an_address_that_is_none_is_told(address: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        OpenAICompatible(model="m", base_url=address, api_key=SECRET)

    assert caught.value.code == "model_address_invalid"
    _holds_nothing(caught.value)


def _holds_nothing(error: BaseException) -> None:
    """No word of the endpoint, in it or behind it."""
    assert error.__cause__ is None and error.__context__ is None
    assert SECRET not in f"{error!r}{error}{vars(error)}"


async def test_of_an_answer_without_an_end_so_much_is_read_and_no_more() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n")
        with suppress(ConnectionError):
            while not writer.is_closing():
                writer.write(b"x" * 65_536)
                await writer.drain()
        await left(writer)

    over = asyncio.Event()

    async def left(writer: asyncio.StreamWriter) -> None:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        over.set()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        async with OpenAICompatible(model="m", base_url=url, api_key="k", max_retries=0) as model, asyncio.timeout(60):
            with pytest.raises(ModelError) as caught:
                await model.answer(HELLO, [])
        await over.wait()
    assert caught.value.code == "model_answer_malformed"


_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
BROKEN = {
    "shorter than it says": _HEAD + b'content-length: 100\r\n\r\n{"hunter2-in-the-answer":',
    "a chunk of no length": _HEAD + b"transfer-encoding: chunked\r\n\r\nhunter2-in-the-answer\r\n{}",
    "not packed as it says": _HEAD + b"content-encoding: gzip\r\ncontent-length: 21\r\n\r\nhunter2-in-the-answer",
}


@asynccontextmanager
async def _speaking(words: bytes, *, again: bytes = b"") -> AsyncIterator[str]:
    """An endpoint that says these words to each request, and others over and over as long as somebody listens."""

    answering: list[asyncio.Task[None]] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        with suppress(ConnectionError):
            writer.write(words)
            await writer.drain()
            while again and not writer.is_closing():
                writer.write(again)
                await writer.drain()
                await asyncio.sleep(0.005)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answering.append(asyncio.ensure_future(answer(reader, writer)))

    server = await asyncio.start_server(accepted, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    await asyncio.gather(*answering)


@pytest.mark.parametrize("how", BROKEN)
async def test_an_answer_that_breaks_off_is_told_without_its_words(how: str) -> None:
    meter = Counted()
    async with (
        _speaking(BROKEN[how]) as url,
        OpenAICompatible(model="m", base_url=url, api_key="k", max_retries=0, meter=meter) as model,
    ):
        with pytest.raises(ModelError) as caught:
            await model.answer(HELLO, [])

    _holds_nothing(caught.value)
    assert (caught.value.code, meter.told) == ("model_unavailable", [("openai_compatible", "failed")])


@pytest.mark.parametrize(
    ("words", "again", "retries"),
    [(_HEAD + b"content-length: 100000000\r\n\r\n", b" ", 2), (_HEAD, b"x: y\r\n", 0)],
    ids=["its body", "its head"],
)
async def test_an_answer_that_comes_drop_by_drop_is_not_waited_for_longer_than_any(
    words: bytes, again: bytes, retries: int
) -> None:
    async with _speaking(words, again=again) as url:
        given: Any = {"base_url": url, "api_key": "k", "max_retries": retries, "timeout_seconds": 0.3}
        async with OpenAICompatible(model="m", **given) as model, asyncio.timeout(60):
            with pytest.raises(ModelError) as caught:
                await model.answer(HELLO, [])

    assert caught.value.code == "model_late"


class Counted:
    """What a meter was told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, ...]] = []

    def model_called(self, *, provider: str, outcome: str) -> None:
        self.told.append((provider, outcome))

    def model_tokens(self, *, provider: str, kind: str, tokens: int) -> None:
        self.told.append((provider, kind, str(tokens)))


@pytest.mark.req("B181")
async def test_each_answer_and_its_tokens_are_counted_and_that_there_was_none() -> None:
    answer = text("Hi.") | {"usage": {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}}
    meter = Counted()
    with endpoint([answer, text("Hi.") | {"usage": "many"}, (403, b"{}"), b"[]"]) as there:
        async with OpenAICompatible(model="m", base_url=there.url, api_key="k", max_retries=0, meter=meter) as model:
            for _ in range(2):
                await model.answer(HELLO, [])
            for _ in range(2):
                with pytest.raises(ModelError):
                    await model.answer(HELLO, [])
    name = "openai_compatible"
    assert meter.told == [
        (name, "answered"),
        (name, "prompt", "7"),
        (name, "completion", "2"),
        (name, "answered"),
        (name, "refused"),
        (name, "failed"),
    ]


async def test_an_endpoint_that_says_nothing_in_time_is_told_as_that() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()  # until the client has left
        await left(writer)

    over = asyncio.Event()

    async def left(writer: asyncio.StreamWriter) -> None:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        over.set()

    server, meter = await asyncio.start_server(silent, "127.0.0.1", 0), Counted()
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        given: Any = {"base_url": url, "api_key": "k", "max_retries": 0, "timeout_seconds": 0.05, "meter": meter}
        async with OpenAICompatible(model="m", **given) as model:
            with pytest.raises(ModelError) as caught:
                await model.answer(HELLO, [])
        await over.wait()
    assert (caught.value.code, caught.value.retryable) == ("model_late", True)
    assert meter.told == [("openai_compatible", "timeout")]
    _holds_nothing(caught.value)
