"""The brain as a process that is spoken with over its standard input and output."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[3])]

from tests.upstreams.servers.brain import Brain  # noqa: E402


def main() -> None:
    era = sys.argv[3] if len(sys.argv) > 3 else "handshake"
    control = Path(sys.argv[2].replace("PID", str(os.getpid())))
    is_fragile = era == "fragile"
    brain = Brain(Path(sys.argv[1]), control, "handshake" if is_fragile else era)
    writing = threading.Lock()

    def send(message: dict[str, Any]) -> None:
        line = message["raw"] if "raw" in message else json.dumps(message)
        with writing:
            sys.stdout.buffer.write(line.encode() + b"\n")
            sys.stdout.buffer.flush()

    if brain.era == "handshake":
        brain.to_all = send
    brain.wrote("started", environment=dict(os.environ), group=os.getpgid(0), control=str(control))
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if is_fragile and message.get("method") == "server/discover":
            sys.exit(1)  # as a few old servers do, asked what they do not know
        brain.hear(message, send)
    brain.wrote("ended")


if __name__ == "__main__":
    main()
