"""The process that fuzzes one target, started by `python -m fuzz`.

python -m fuzz.worker TARGET ENGINE SECONDS SEED
"""

from __future__ import annotations

import sys
from pathlib import Path

from fuzz import engines

if __name__ == "__main__":
    here = Path(__file__).resolve().parent
    name, engine, seconds, seed = sys.argv[1:]
    engines.run(
        name,
        engine=engine,
        seconds=int(seconds),
        seed=int(seed),
        grown=here / "grown" / name,
        corpus=here / "corpus" / name,
        findings=here / "findings",
    )
