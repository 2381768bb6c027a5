"""The OpenAPI document, tried against the API that serves it: every check of schemathesis, signed in, no failure.

It lives in an environment of its own, because it wants other versions of what placet is built on; `make api` makes it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
EXAMPLES = os.environ.get("PLACET_API_EXAMPLES", "8")
TRIED = [
    pytest.param("fuzzing", "1", id="each once"),
    pytest.param("examples,coverage,fuzzing,stateful", EXAMPLES, id="everything", marks=pytest.mark.exhaustive),
]
"""In which phases, and with how many made-up requests of each operation."""
STREAM = "watchApprovals"
"""The one operation that does not end by itself; test_approvals.py reads it."""
CONFIG = """
[checks]
# Beyond what a schema says: a proposal may be sound and still make no call (422), be refused (403) or find the
# operation on record (409); a decision may come too late (409) or about what has changed (412).
positive_data_acceptance.expected-statuses = ["2xx", "304", "403", "404", "409", "412", "422", "424", "429"]

[[operations]]
# A call needs a name, in the body or in a header; and the strict decoder refuses texts and numbers that JSON Schema
# cannot speak of.
include-operation-id = ["propose", "proposeTurn", "edit", "draftGrant", "giveGrant"]
checks.positive_data_acceptance.expected-statuses = ["2xx", "400", "403", "404", "409", "412", "422", "424", "429"]

[[operations]]
include-path-regex = "^/v1/approvals/\\\\{{"
parameters = {{ "path.approval_id" = "{approval_id}" }}

[[operations]]
include-path-regex = "^/v1/proposals/\\\\{{"
parameters = {{ "path.approval_id" = "{question_id}" }}

[[operations]]
include-path-regex = "^/v1/effects/\\\\{{"
parameters = {{ "path.effect_id" = "{effect_id}" }}

[[operations]]
include-path-regex = "^/v1/runs/\\\\{{"
parameters = {{ "path.run" = "{run}" }}
"""


@pytest.fixture(scope="module")
def program() -> Path:
    found = Path(os.environ.get("PLACET_SCHEMATHESIS") or REPOSITORY / ".schemathesis" / "bin" / "schemathesis")
    if not found.is_file():
        pytest.skip("no schemathesis: make api")
    return found


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    folder = tmp_path_factory.mktemp("served")
    command = [sys.executable, "-m", "tests.http_api.served", str(folder)]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())
        finally:
            process.terminate()
            process.wait(60)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("phases", "examples"), TRIED)
def test_the_document_says_what_the_api_does(
    program: Path, served: dict[str, str], tmp_path: Path, phases: str, examples: str
) -> None:
    config = tmp_path / "schemathesis.toml"
    config.write_text(CONFIG.format(**served))
    command: list[Any] = [program, "--config-file", config, "run", f"{served['url']}/openapi.json"]
    command += ["--header", f"Authorization: Bearer {served['token']}", "--checks", "all"]
    command += ["--phases", phases, "--max-examples", examples, "--seed", "1"]
    command += ["--exclude-operation-id", STREAM, "--continue-on-failure", "--no-color"]
    environment = {**os.environ, "NO_PROXY": "127.0.0.1", "HYPOTHESIS_STORAGE_DIRECTORY": str(tmp_path / "hypothesis")}
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stdout[-20_000:] + ran.stderr[-2_000:]
    assert "Selected: 34/35" in ran.stdout
