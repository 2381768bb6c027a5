"""The demos with a model behind a real endpoint in place of the script: the same tools, gate and person."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from placet.agent import calls, text
from tests.agent.endpoint import Endpoint, endpoint
from tests.demos.programs import ended

TICKET = {"title": "Checkout hangs", "service": "edge", "severity": "sev2", "body": "Since 17:55."}
QUESTION = "How do I claim travel expenses?"


def told(content: str) -> Any:
    """The outcome that a model is told: a refusal as it is; what a tool returned, as evidence that says it is data."""
    block = re.fullmatch(r".*<evidence>\n(.*)\n</evidence>", content, re.S)
    return json.loads(content if block is None else block[1])


def run(demo: str, there: Endpoint, folder: Path, *arguments: str) -> Any:
    environment = {**os.environ, "TMPDIR": str(folder), "OPENAI_API_KEY": "key-of-the-endpoint", "NO_COLOR": "1"}
    return ended(f"placet.demos.{demo}", environment, "--model", "m", "--base-url", there.url, *arguments)


@pytest.mark.req("C056", "C059")
def test_a_model_handles_the_incident_and_its_ticket_waits_for_a_person(tmp_path: Path) -> None:
    script = [
        calls(("get_service_status", {"service": "edge"}), ("restart_service", {"service": "edge"})),
        calls(("query_logs", '{"service": "edge", "service": "edge"}'), ("create_ticket", TICKET | {"approved": True})),
        calls(("create_ticket", TICKET), finish_reason="length"),
        calls(("create_ticket", TICKET)),
        text("There is a ticket now."),
    ]
    with endpoint(script) as there:
        done = run("ops", there, tmp_path, "--yes-as", "mara", "--json")

    document = json.loads(done.stdout)
    assert (done.returncode, document["holds"], document["expectations"]["failed"]) == (0, True, []), done.stderr
    assert document["calls"] == {"submitted": 7, "refused": 4, "replayed": 0, "attempts": 7}
    assert document["approvals"] == {"approved": 1, "denied": 0}
    assert document["desk"] == {"tickets": 1, "requests": 1}
    assert "| There is a ticket now." in done.stderr
    credential, asked = there.asked[-1]
    assert credential == "Bearer key-of-the-endpoint"
    answers = [told(message["content"]) for message in asked["messages"] if message["role"] == "tool"]
    assert [answer["status"] for answer in answers] == [
        "succeeded",
        "invalid",
        "invalid",
        "invalid",
        "invalid",
        "succeeded",
    ]
    assert sorted(tool["function"]["name"] for tool in asked["tools"]) == sorted(
        ["create_ticket", "get_service_status", "query_logs", "query_metrics", "search_runbook"]
    )
    assert "key-of-the-endpoint" not in done.stdout + done.stderr


def test_a_model_answers_from_documents_and_its_draft_waits_for_whom_it_is_for(tmp_path: Path) -> None:
    search = ("search_knowledge_base", {"query": "redis memory full", "knowledge_base_id": "runbooks"})
    script = [
        calls(("get_document_status", {"document_id": "runbooks"}), search),
        text("See redis-memory#how-it-looks:1."),
        calls(("create_support_draft", {"question": QUESTION})),
        text("It was handed on."),
    ]
    with endpoint(script) as there:
        done = run("support", there, tmp_path, "--yes-as", "mara", "--json")

    document = json.loads(done.stdout)
    assert (done.returncode, document["expectations"]["failed"]) == (0, []), done.stderr
    assert (document["approvals"], document["drafts"]) == (
        {"approved": 1, "denied": 0},
        {"kept": 1, "requests": 1},
    )
    assert "| It was handed on." in done.stderr
    (found,) = [
        told(message["content"])
        for message in there.asked[1][1]["messages"]
        if message["role"] == "tool" and "redis-memory" in message["content"]
    ]
    assert (found["result"]["is_enough"], found["result"]["evidence"][0]["source"]) == (True, "redis-memory.md")


@pytest.mark.parametrize(
    ("script", "hint"),
    [
        pytest.param([(401, {"error": {"message": "hunter2"}})], "status 401", id="refused"),
        pytest.param([{"choices": "hunter2"}], "no Chat Completions response", id="malformed"),
    ],
)
def test_a_model_that_gives_no_answer_ends_the_demo_with_what_to_look_at(
    script: list[Any], hint: str, tmp_path: Path
) -> None:
    with endpoint(script) as there:
        done = run("support", there, tmp_path, "--yes-as", "mara")

    assert done.returncode == 1
    assert hint in done.stderr
    assert "hunter2" not in done.stdout + done.stderr
    assert list(tmp_path.iterdir()) == []
