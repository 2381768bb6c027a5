"""A model behind any endpoint that speaks OpenAI's Chat Completions, asked through OpenAI's own SDK.

The answer is decoded by placet, strictly, from the bytes that came: the SDK's models take almost anything. The SDK
repeats a request that found no answer; a request to a model acts on nothing. Foreign error text stays where it is.
What the SDK and its HTTP client log of these requests, addresses and headers among it, is said to nobody.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from ipaddress import ip_address
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from placet.bootstrap.extras import how_to_install
from placet.errors import ConfigurationError, InvalidArguments, ModelError
from placet.model.json import JsonObject
from placet.ports.knowledge import ModelMeter
from placet.rules.decoding import DecodingLimits, decode_object

if TYPE_CHECKING:
    from openai import AsyncOpenAI

MAX_ANSWER_BYTES: Final = 4 * 1024 * 1024
_LIMITS = DecodingLimits(max_bytes=MAX_ANSWER_BYTES, max_members=100_000, max_string_characters=1_000_000)
_PROVIDER: Final = "openai_compatible"
_KEY: Final = "OPENAI_API_KEY"
_NO_KEY: Final = "none"
"""What stands in the header for an endpoint that is asked without a credential."""

_OUTCOMES: Final = {"model_refused": "refused", "model_late": "timeout"}
_LONGEST_PAUSE_SECONDS: Final = 120.0
"""Before the SDK asks again: as long as an endpoint may have it wait."""
_REFUSED = frozenset({400, 401, 403, 404, 405, 413, 415, 422})
_LOGGERS = (
    "openai._base_client",
    "httpx",
    "httpx2",
    *(
        f"{core}.{part}"
        for core in ("httpcore", "httpcore2")
        for part in ("connection", "http11", "http2", "proxy", "socks")
    ),
)
_is_asking: ContextVar[bool] = ContextVar("placet.agent.asking", default=False)


class _Unsaid(logging.Filter):
    """What a library says of requests of others is none of our business."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not _is_asking.get()


_UNSAID: Final = _Unsaid()


class OpenAICompatible:
    """One model at one endpoint. Close it, or use it as a context manager.

    Attributes:
        host: where it is, with its port if that is not the scheme's own.
    """

    def __init__(
        self,
        *,
        model: str,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout_seconds: float = 120.0,
        max_retries: int = 2,
        meter: ModelMeter | None = None,
    ) -> None:
        """Args:
            model: the model's name, as the endpoint knows it.
            base_url: the endpoint, up to and without `/chat/completions`; the variable OPENAI_BASE_URL if absent, and
                OpenAI's own without that.
            api_key: the credential for it; the variable OPENAI_API_KEY if absent, and for an endpoint that wants none
                any text. It goes nowhere over plain http but to this machine, and there by no proxy: another such
                endpoint is asked without one.
            timeout_seconds: how long one request may take, and its answer to come; finite, above zero.
            max_retries: how often the SDK asks again after no answer, 429 or a fault of the server.
            meter: hears of each answer, or that there was none, and of tokens as the endpoint counted them.

        Raises:
            ConfigurationError: the extra `agent` is not installed, there is no credential, or it would be sent over
                plain http to another host.
        """
        for name in _LOGGERS:
            logging.getLogger(name).addFilter(_UNSAID)
        self._model = model
        self._meter = meter
        self._client = _client(base_url, api_key, timeout_seconds, max_retries)
        self._seconds = timeout_seconds
        self._longest_seconds = timeout_seconds * (max_retries + 1) + _LONGEST_PAUSE_SECONDS * max_retries
        self.host = _host_of(self._client)

    async def answer(self, messages: Sequence[JsonObject], tools: Sequence[JsonObject]) -> JsonObject:
        asked: dict[str, Any] = {"model": self._model, "messages": list(messages)}
        if tools:
            asked["tools"] = list(tools)
        outcome = "failed"
        try:
            answer = _read(await self._asked(asked))
            outcome = "answered"
        except ModelError as fault:
            outcome = _OUTCOMES.get(fault.code, outcome)
            raise
        finally:
            if self._meter is not None:
                self._meter.model_called(provider=_PROVIDER, outcome=outcome)
        self._count(answer)
        return answer

    def _count(self, answer: JsonObject) -> None:
        usage = answer.get("usage")
        if self._meter is None or type(usage) is not dict:
            return
        for kind in ("prompt", "completion"):
            tokens = usage.get(f"{kind}_tokens")
            if type(tokens) is int:
                self._meter.model_tokens(provider=_PROVIDER, kind=kind, tokens=tokens)

    async def _asked(self, asked: dict[str, Any]) -> bytes:
        import openai

        asking, is_late = _is_asking.set(True), False
        try:
            async with asyncio.timeout(self._longest_seconds):  # the SDK's own is one between two bytes
                async with self._client.chat.completions.with_streaming_response.create(**asked) as response:
                    async with asyncio.timeout(self._seconds):
                        return await _bounded(response.iter_bytes())
        except openai.APIStatusError as error:
            status = error.status_code if type(error.status_code) is int else None
        except (openai.APITimeoutError, TimeoutError):
            status, is_late = None, True
        except Exception:  # an answer that broke off is told in its HTTP library's own words
            status = None
        finally:
            _is_asking.reset(asking)
        raise _late(self.host) if is_late else _told(status, self.host)

    async def close(self) -> None:
        await self._client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _client(base_url: str | None, api_key: str | None, timeout_seconds: float, max_retries: int) -> AsyncOpenAI:
    try:
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient
    except ImportError:
        missing = True
    else:
        missing = False
    if missing:
        raise ConfigurationError(
            "A model needs the extra 'agent', which is not installed.",
            code="extra_missing",
            hint=how_to_install("agent"),
        )
    key = os.environ.get(_KEY) if api_key is None else api_key
    client = None
    with suppress(Exception):  # of several libraries, for an address that is none
        made = AsyncOpenAI(
            base_url=base_url,
            api_key=key or _NO_KEY,
            timeout=timeout_seconds,
            max_retries=max_retries,
            http_client=DefaultAsyncHttpxClient(trust_env=False),  # a proxy of the environment's is another host
        )
        is_here = made.base_url.scheme == "http" and _is_this_machine(made.base_url.host)
        client = made if is_here else made.with_options(http_client=DefaultAsyncHttpxClient())
    if client is None or client.base_url.scheme not in ("http", "https") or not client.base_url.host:
        raise ConfigurationError(
            "The address of the model's endpoint is none.",
            code="model_address_invalid",
            hint="--base-url, or OPENAI_BASE_URL, is like https://models.example.com/v1",
        )
    is_exposed = client.base_url.scheme == "http" and not _is_this_machine(client.base_url.host)
    if key and is_exposed:
        raise ConfigurationError(
            f"The credential would be sent to {_host_of(client)} over plain http, for everybody on the way to read.",
            code="model_key_exposed",
            hint="Use an https:// address; or unset OPENAI_API_KEY, if the endpoint wants none.",
        )
    if not key and not is_exposed:
        raise ConfigurationError(
            "There is no credential for the model's endpoint.",
            code="model_key_missing",
            hint="Set OPENAI_API_KEY; an endpoint that wants none takes any text.",
        )
    return client


def _is_this_machine(host: str) -> bool:
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return host.rstrip(".").lower() == "localhost"


def _host_of(client: AsyncOpenAI) -> str:
    """Host and port; nothing else of an address, which may hold a secret."""
    url = client.base_url
    name = url.raw_host.decode("ascii", "replace")
    shown = f"[{name}]" if ":" in name else name
    return shown if url.port is None else f"{shown}:{url.port}"


async def _bounded(parts: AsyncIterable[bytes]) -> bytes:
    """So much of an answer as may be read, and a little more where there is more."""
    content = bytearray()
    async for part in parts:
        content += part
        if len(content) > MAX_ANSWER_BYTES:
            break
    return bytes(content)


def _late(host: str) -> ModelError:
    return ModelError(f"The model's endpoint at {host} gave no answer in time.", code="model_late")


def _told(status: int | None, host: str) -> ModelError:
    if status in _REFUSED:
        fault = ModelError(
            f"The model's endpoint at {host} refused the request with status {status}.",
            code="model_refused",
            hint="Look at the model's name, the endpoint and the credential; or the conversation has become too long.",
            status=status,
        )
        fault.retryable = False
        return fault
    return ModelError(
        f"The model's endpoint at {host} gave no answer."
        if status is None
        else f"The model's endpoint at {host} answered with status {status}.",
        status=status,
    )


def _read(content: bytes) -> JsonObject:
    if len(content) <= MAX_ANSWER_BYTES:
        try:
            return decode_object(content, limits=_LIMITS)
        except InvalidArguments:
            pass
    raise ModelError(
        "The model's endpoint answered with what is no sound JSON object.",
        code="model_answer_malformed",
        hint="Nothing of it was proposed. Look whether the endpoint speaks Chat Completions.",
    )
