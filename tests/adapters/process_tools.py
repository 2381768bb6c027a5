"""Handlers for `test_process_transport.py`: a new process has to find them, so they stand in a module of their own."""

from __future__ import annotations

import asyncio
import contextvars
import ctypes
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel

import placet
from placet import CallContext, NotSent, RemoteStatus, Tool, ToolRejected, WideInt

AMBIENT: contextvars.ContextVar[str] = contextvars.ContextVar("AMBIENT")
TOOLS: list[Tool] = []


def handler(function: Callable[..., Any]) -> Tool:
    """A write in a process of its own, under the function's name."""
    tool = placet.tool(effect="write", risk="low", permission="p", isolation="process")(function)
    TOOLS.append(tool)
    return tool


def forever() -> None:
    while True:
        signal.pause()


def answer_pipe() -> int:
    """The descriptor of the way back, found as hostile code would find it."""
    (found,) = (int(name) for name in os.listdir("/proc/self/fd") if int(name) > 2 and _is_pipe_to_write(int(name)))
    return found


def _is_pipe_to_write(descriptor: int) -> bool:
    try:
        is_pipe = os.readlink(f"/proc/self/fd/{descriptor}").startswith("pipe:")
        flags = Path(f"/proc/self/fdinfo/{descriptor}").read_text().split("flags:")[1].split()[0]
    except OSError:
        return False
    return is_pipe and int(flags, 8) & os.O_ACCMODE == os.O_WRONLY


def told(folder: str, **facts: object) -> None:
    """Leave word, whole or not at all."""
    path = Path(folder, "told.json")
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps({"pid": os.getpid(), "warden": os.getppid(), **facts}))
    draft.rename(path)


# ---------------------------------------------------------------- what crosses


@handler
def plain(word: str) -> dict[str, Any]:
    return {"pid": os.getpid(), "word": word}


@handler
async def coroutine(word: str) -> dict[str, Any]:
    await asyncio.sleep(0)
    return {"pid": os.getpid(), "word": word}


@handler
def context_seen(context: CallContext) -> dict[str, Any]:
    context.guard()
    giver = context.principal.on_behalf_of
    return {
        "tenant": context.tenant,
        "subject": context.principal.subject,
        "roles": sorted(role.value for role in context.principal.roles),
        "scopes": sorted(context.principal.scopes),
        "environment": context.principal.environment,
        "standing": context.principal.standing.value,
        "giver": None if giver is None else giver.subject,
        "run_id": context.run_id,
        "call_id": context.call_id,
        "operation_key": context.operation_key,
        "attempt": context.attempt,
        "deadline_at": context.deadline_at.isoformat(),
        "has_time": 0.0 < context.remaining_seconds() <= 30.0,
    }


@handler
def ambient() -> str:
    return AMBIENT.get()


class Order(BaseModel):
    number: WideInt
    price: float
    names: list[str]


@handler
def typed(order: Order) -> Order:
    return order


class _Mine(ConnectionError):
    pass


class _HostileKind(type):
    def __hash__(cls) -> int:
        raise KeyboardInterrupt("s3cr3t")

    def __eq__(cls, other: object) -> bool:
        raise KeyboardInterrupt("s3cr3t")

    __name__ = property(lambda cls: os._exit(0))  # type: ignore[assignment]


class _Hostile(Exception, metaclass=_HostileKind):
    def __str__(self) -> str:
        raise SystemExit("s3cr3t")

    __repr__ = __str__


ERRORS: dict[str, Callable[[], BaseException]] = {
    "rejected": lambda: ToolRejected("no \x1b room"),
    "not_sent": lambda: NotSent("x"),
    "status": lambda: RemoteStatus(503, retry_after="7"),
    "timeout": lambda: TimeoutError("s3cr3t"),
    "value": lambda: ValueError("s3cr3t"),
    "interrupt": lambda: KeyboardInterrupt("s3cr3t"),
    "exit": lambda: SystemExit("s3cr3t"),
    "cancelled": lambda: asyncio.CancelledError("s3cr3t"),
    "mine": lambda: _Mine("s3cr3t"),
    "hostile": lambda: _Hostile("s3cr3t"),
}


@handler
def raising(what: str) -> str:
    raise ERRORS[what]()


@handler
async def raising_in_loop(what: str) -> str:
    raise ERRORS[what]()


VALUES: dict[str, Callable[[], Any]] = {
    "object": object,
    "set": lambda: {1},
    "nan": lambda: float("nan"),
    "surrogate": lambda: "\ud800",
    "large": lambda: ["x" * 40_000] * 2,
    "huge": lambda: ["x" * 40_000] * 2_000,
    "one_large": lambda: "x" * 70_000,
    "callable": lambda: forever,
}


@handler
def returning(what: str) -> list[Any]:
    value = VALUES[what]()
    return value if what == "callable" else [value]  # type: ignore[no-any-return]


# ---------------------------------------------------------------- ways to die


@handler
def dying(how: str) -> str:
    match how:
        case "exit_0":
            os._exit(0)
        case "exit_3":
            os._exit(3)
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "group_killed":
            os.killpg(0, signal.SIGKILL)
        case "segfault":
            ctypes.string_at(0)
        case "abort":
            os.abort()
    return "alive"


@handler
def noisy() -> str:
    for stream in (sys.stdout, sys.stderr):
        stream.write("s3cr3t " * 200_000)
        stream.flush()
    os.write(1, b"s3cr3t")
    return "said" if sys.stdin.read() == "" else "heard"


@handler
def closing_pipes() -> str:
    os.closerange(3, 256)
    return "closed"


@handler
def closing_pipes_then_writing(folder: str) -> str:
    number = answer_pipe()
    os.closerange(3, 256)
    file = os.open(f"{folder}/mine", os.O_WRONLY | os.O_CREAT, 0o600)
    os.dup2(file, number)
    return "mine"


@handler
def endless() -> str:
    pipe = answer_pipe()
    while True:
        os.write(pipe, b"\x00" * 65_536)


@handler
def claiming(how: str) -> str:
    pipe = answer_pipe()
    claims = {"size": b"r\xff\xff\xff\xff", "note": b"x\x00\x10\x00\x00", "again": b"c\x00\x00\x00\x00"}
    os.write(pipe, claims[how])
    forever()
    return ""


FORGED = {
    "name": b"xs3cr3t",
    "words": b"jno \x1b room \xff",
    "status": b"s[9999, null]",
    "header": b"s[503, 7]",
    "text": b"s{",
    "deep": b"s" + b"[" * 8_000,
    "result": b"r{bad",
    "twice": b'r{"a":1,"a":2}',
    "reason": b"bresult_s3cr3t",
}


@handler
def forging(what: str) -> list[Any]:
    forged = FORGED[what]
    os.write(answer_pipe(), forged[:1] + (len(forged) - 1).to_bytes(4, "big") + forged[1:])
    forever()
    return []


@handler
def deaf(folder: str) -> str:
    """Ignores whatever can be ignored."""
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)
    told(folder)
    forever()
    return ""


@handler
async def swallowing(folder: str) -> str:
    told(folder)
    while True:
        try:
            await asyncio.sleep(3600)
        except BaseException:
            continue


@handler
def holding_the_interpreter(folder: str) -> str:
    """No Python code of this process runs any more, signal handlers included."""
    told(folder)
    ctypes.PyDLL(None).pause()
    return ""


@handler
def stopping_its_warden(folder: str) -> str:
    told(folder)
    os.kill(os.getppid(), signal.SIGSTOP)
    forever()
    return ""


@handler
def killing_its_warden(folder: str) -> str:
    told(folder)
    os.kill(os.getppid(), signal.SIGKILL)
    forever()
    return ""


@handler
def lost(folder: str) -> str:
    """As soon as it is told to, nobody is left who would say that it has ended."""
    told(folder, answers=answer_pipe())
    while not Path(folder, "go").exists():
        time.sleep(0.005)
    os.kill(os.getppid(), signal.SIGKILL)
    forever()
    return ""


# ---------------------------------------------------------------- kin


@handler
def leaving_kin(folder: str, ends: bool) -> str:
    """One of the group, one of a group of its own, and one that left the session and its parent; all keep the pipe."""
    kin = [_forked(lambda: None), _forked(lambda: os.setpgid(0, 0)), _daemon()]
    told(folder, kin=kin)
    if not ends:
        forever()
    return "left"


def _forked(prepares: Callable[[], object]) -> int:
    child = os.fork()
    if child == 0:
        prepares()
        forever()
    return child


def _daemon() -> int:
    reads, writes = os.pipe()
    if (between := os.fork()) == 0:
        os.setsid()
        daemon = os.fork()
        if daemon == 0:
            forever()
        os.write(writes, str(daemon).encode())
        os._exit(0)
    os.waitpid(between, 0)
    return int(os.read(reads, 32))


# ---------------------------------------------------------------- surroundings


@handler
def surroundings(variable: str) -> dict[str, Any]:
    return {
        "descriptors": sorted(
            int(name) for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}")
        ),
        "answer_pipe": answer_pipe(),
        "variable": os.environ.get(variable),
        "session": os.getsid(0),
        "warden": os.getppid(),
        "folder": os.getcwd(),
        "blocked": len(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
        "optimize": sys.flags.optimize,
        "argv": len(sys.argv),
    }


@handler
def waiting(folder: str, secret: str) -> str:
    told(folder)
    forever()
    return ""


@handler
def waiting_for_the_end(context: CallContext) -> str:
    while context.remaining_seconds() > 0:
        time.sleep(0.005)
    context.guard()
    return "sent"


@handler
def waiting_for_the_guard(context: CallContext) -> str:
    while True:
        context.guard()
        time.sleep(0.005)


def _made_inside() -> Tool:
    def inside() -> str:
        return "found"

    inside.__qualname__ = "gone"
    return placet.tool(effect="read", isolation="process")(inside)


by_another_name = _made_inside()
