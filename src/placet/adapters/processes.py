"""Owners are processes of this host; whether one is gone can be proven here, and only here."""

from __future__ import annotations

import os
import re
import secrets
import socket
from pathlib import Path
from typing import Final

from placet.model.identifiers import OwnerId

_NUMBER: Final = re.compile(r"[1-9][0-9]{0,8}")
"""Of a process, as far as any system counts."""


class LocalProcesses:
    """Owner ids of the form `host/boot/namespace/pid/start/nonce`.

    A process is proven dead only on its own host and boot, and seen from its own container: its pid is free, or
    belongs to a process that started at another time. Anything else counts as alive.
    """

    def __init__(self) -> None:
        self._here = f"{socket.gethostname()}/{_boot_id()}/{_pid_namespace()}"

    def own_id(self) -> OwnerId:
        pid = os.getpid()
        return OwnerId(f"{self._here}/{pid}/{_started(pid)}/{secrets.token_hex(4)}")

    def is_dead(self, owner: OwnerId) -> bool:
        host, _, rest = owner.rpartition(f"{self._here}/")
        parts = rest.split("/")
        if host or len(parts) != 3 or not owner.startswith(self._here) or _NUMBER.fullmatch(parts[0]) is None:
            return False
        pid = int(parts[0])
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        except OSError:
            pass
        started = _started(pid)
        return started != "" and parts[1] != "" and started != parts[1]


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return "unknown-boot"


def _pid_namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return "unknown-namespace"


def _started(pid: int) -> str:
    """When the process began, in ticks since boot; empty where the system does not say."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("ascii", errors="replace")
    except OSError:
        return ""
    fields = text.rpartition(")")[2].split()
    is_gone = not fields or fields[0] in ("Z", "X")
    return "gone" if is_gone else fields[19]
