"""A message for Slack informs and links. It mentions nobody, and nothing in it decides."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from placet.adapters.notify.posting import Poster
from placet.adapters.notify.slack import SlackNotifier, message_of
from placet.model.destinations import SecretPlace, SecretRef, SlackWay
from placet.model.issuers import Network
from placet.model.notices import NoticeKind
from placet.ports.notifier import Delivered, NotDelivered
from placet.testing import FakeClock
from tests.adapters.notify.conftest import a_notice
from tests.adapters.notify.receiver import Receiver

HOSTILE = "<!channel> <@U1> <https://evil.example|Approve> *bold* &amp; @here\n\u202e"


def document(**facts: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(message_of(a_notice(**facts)))
    return found


def texts(value: Any) -> list[str]:
    """Every text of a message, of whatever kind."""
    if isinstance(value, str):
        return [value]
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for each in inside for text in texts(each)]


def test_a_message_is_a_heading_what_it_means_what_the_audit_says_and_a_link() -> None:
    assert document() == {
        "text": "Approval asked: refund. A person has to decide. Look at the whole call first; this message is not "
        "enough. https://ops.example.com/console/approvals/apr-1",
        "blocks": [
            {"type": "header", "text": {"type": "plain_text", "text": "Approval asked: refund", "emoji": False}},
            {
                "type": "section",
                "text": {
                    "type": "plain_text",
                    "text": "A person has to decide. Look at the whole call first; this message is not enough.",
                    "emoji": False,
                },
            },
            {
                "type": "section",
                "fields": [
                    {"type": "plain_text", "text": text, "emoji": False}
                    for text in (
                        "tenant: acme",
                        "asked by: agent-1",
                        "tool: refund 1",
                        "risk: high",
                        "effect class: write",
                        "run: run-7",
                        "reasons: contract_always_asks",
                        "decide by: 2026-03-02T12:30:00Z",
                        "approval: apr-1",
                        "at: 2026-03-01T12:30:00Z",
                    )
                ],
            },
            {
                "type": "section",
                "text": {
                    "type": "mrkdwn",
                    "text": "<https://ops.example.com/console/approvals/apr-1|Open it in the console>",
                    "verbatim": True,
                },
            },
        ],
        "mrkdwn": False,
        "parse": "none",
        "link_names": False,
        "unfurl_links": False,
        "unfurl_media": False,
    }


@pytest.mark.parametrize("field", ["subject", "on_behalf_of", "run_id", "environment", "detail", "decided_by"])
def test_nothing_that_others_wrote_is_read_as_markup_or_mentions_anybody(field: str) -> None:
    found = document(**{field: HOSTILE})
    own_link = "<https://ops.example.com/console/approvals/apr-1|Open it in the console>"

    assert all("<" not in text and ">" not in text for text in texts(found) if text != own_link)
    assert not any("\u202e" in text or "\n" in text for text in texts(found))
    shown = [text for text in texts(found) if "channel" in text]
    assert shown and all("&lt;!channel&gt; &lt;@U1&gt;" in text and "&amp;amp;" in text for text in shown)
    assert [block["text"]["type"] for block in found["blocks"] if "text" in block] == ["plain_text"] * 2 + ["mrkdwn"]


def test_no_message_holds_a_button_or_anything_to_decide_with() -> None:
    for kind in NoticeKind:
        found = json.loads(message_of(a_notice(kind)))
        kinds = {block["type"] for block in found["blocks"]}
        assert kinds <= {"header", "section"}
        assert not any("accessory" in block or "elements" in block for block in found["blocks"])


def test_what_is_too_long_for_slack_is_cut_and_says_so_and_never_inside_an_escape() -> None:
    found = document(tool="&" * 64, subject="\U0010ffff" * 128, run_id="<" * 128, on_behalf_of="&" * 128)
    header = found["blocks"][0]["text"]["text"]

    assert len(header) <= 150 and header.endswith(" ...")
    assert header.removeprefix("Approval asked: ").removesuffix(" ...").replace("&amp;", "") == ""
    for block in found["blocks"]:
        assert len(block.get("fields", ())) <= 10
        assert all(len(field["text"]) <= 2_000 for field in block.get("fields", ()))


def test_more_facts_than_a_section_takes_go_into_another() -> None:
    found = document(environment="production", on_behalf_of="mara", decided_by="olga", detail="x", effect_state="y")
    fields = [len(block["fields"]) for block in found["blocks"] if "fields" in block]

    assert fields == [10, 5]


def test_without_a_console_there_is_no_link() -> None:
    found = document(url=None)
    assert not any("http" in text for text in texts(found))


async def test_it_is_posted_where_the_secret_says(
    receiver: Callable[..., Receiver], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = receiver([200, {}], [404, {}])
    way = SlackWay(url=SecretRef(place=SecretPlace.ENVIRONMENT, name="CHAT_URL"), network=Network.LOOPBACK)
    notifier = SlackNotifier(way, Poster(way.network), clock=FakeClock())
    assert await notifier.send(a_notice()) == NotDelivered(code="secret_missing")
    monkeypatch.setenv("CHAT_URL", f"{here.url}/services/T/B/x")

    assert await notifier.send(a_notice()) == Delivered(code="status_200")
    assert await notifier.send(a_notice()) == NotDelivered(code="status_404")

    (path, headers, body), _ = here.came
    assert (path, headers["content-type"]) == ("/services/T/B/x", "application/json")
    assert body == message_of(a_notice()) and body.isascii()
    assert "webhook-signature" not in headers
