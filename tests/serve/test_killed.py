"""A process that serves is killed in the middle of a request: asked again under the same name, nothing acts twice."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from placet.client import AnswerLost, Client, Retries
from placet.model.effect import EffectState
from placet.model.outcome import InProgress, Replayed, Unknown
from tests.postgres.fixtures import Database
from tests.serve.program import TOKEN

REPOSITORY = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 60


@dataclass
class Place:
    """One store, and processes that serve it, one after the other."""

    folder: Path
    store: str
    opened: ExitStack = field(default_factory=ExitStack)

    def serve(self) -> tuple[subprocess.Popen[str], str]:
        command = [sys.executable, "-m", "tests.serve.program", self.store, str(self.folder)]
        process = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
        self.opened.callback(ended, process)
        assert process.stdout is not None
        return process, process.stdout.readline().strip()

    @property
    def acted(self) -> list[str]:
        file = self.folder / "acted"
        return file.read_text().splitlines() if file.exists() else []


def ended(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait(PATIENCE_SECONDS)
    if process.stdout is not None:
        process.stdout.close()


@contextmanager
def placed(folder: Path, store: str) -> Iterator[Place]:
    found = Place(folder=folder, store=store)
    with found.opened:
        yield found


def wait_until(is_so: object, what: str) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not is_so():  # type: ignore[operator]
        assert time.monotonic() < end, what
        time.sleep(0.01)


class Killed:
    def test_killed_while_the_tool_runs_the_same_ask_is_answered_once_recovery_has_looked(self, place: Place) -> None:
        process, url = place.serve()
        with ThreadPoolExecutor(1) as pool, Client(url, token=TOKEN, retries=Retries(count=0)) as first:
            asking = pool.submit(first.submit, "hang", {"word": "a"}, run="r1", idempotency_key="order-7")
            wait_until((place.folder / "begun").exists, "the tool never began")
            process.kill()
            with pytest.raises(AnswerLost) as lost:
                asking.result(PATIENCE_SECONDS)
        assert lost.value.may_have_acted

        _, url = place.serve()
        with Client(url, token=TOKEN) as second:
            first_word = second.submit("hang", {"word": "a"}, run="r1", idempotency_key="order-7")
            settled = (EffectState.RECONCILED_COMMITTED,)
            wait_until(lambda: second.effects(states=settled), "recovery never looked")
            outcome = second.submit("hang", {"word": "a"}, run="r1", idempotency_key="order-7")
            (effect,) = second.effects()

        assert isinstance(first_word, InProgress | Unknown | Replayed)  # wherever recovery was by then; never anew
        assert isinstance(outcome, Replayed)
        assert outcome.unwrap() == "acted before"
        assert effect.state is EffectState.RECONCILED_COMMITTED
        assert place.acted == ["a"]

    def test_killed_before_anybody_read_the_answer_the_same_ask_is_answered_from_the_record(self, place: Place) -> None:
        process, url = place.serve()
        body = json.dumps({"run": "r1", "tool": "note", "arguments": {"word": "a"}}).encode()
        lines = [
            "POST /v1/proposals HTTP/1.1",
            "Host: placet.test",
            f"Authorization: Bearer {TOKEN}",
            'Idempotency-Key: "order-7"',
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
        ]
        with socket.create_connection((urlsplit(url).hostname, urlsplit(url).port)) as wire:
            wire.sendall("\r\n".join([*lines, "", ""]).encode() + body)
            with Client(url, token=TOKEN) as looking:
                wait_until(lambda: looking.effects(states=(EffectState.COMMITTED,)), "it was never committed")
            process.kill()
            process.wait(PATIENCE_SECONDS)
            with suppress(ConnectionError):
                wire.recv(1)

        _, url = place.serve()
        with Client(url, token=TOKEN) as again:
            outcome = again.submit("note", {"word": "a"}, run="r1", idempotency_key="order-7")

        assert isinstance(outcome, Replayed)
        assert outcome.unwrap() == "a"
        assert place.acted == ["a"]


class TestOnSqlite(Killed):
    @pytest.fixture
    def place(self, tmp_path: Path) -> Iterator[Place]:
        with placed(tmp_path, str(tmp_path / "placet.db")) as found:
            yield found


class TestOnPostgres(Killed):
    @pytest.fixture
    def place(self, tmp_path: Path, databases: Callable[..., Database]) -> Iterator[Place]:
        with placed(tmp_path, databases(is_empty=True).url) as found:
            yield found
