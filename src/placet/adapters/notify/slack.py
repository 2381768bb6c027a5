"""Messages for an incoming webhook of Slack, and for others that take the same form.

A message informs and links; there is no button in it, and nothing in it decides. What others wrote stands in plain
text objects, where nothing is read as markup, and its `&`, `<` and `>` are escaped, so that it mentions nobody.

Source: https://docs.slack.dev/messaging/formatting-message-text (escaping), /reference/block-kit
"""

from __future__ import annotations

import json
from typing import Any

from placet.adapters.notify.posting import Poster
from placet.adapters.referenced_secrets import SecretMissing, secret_of
from placet.model.destinations import SlackWay
from placet.model.notices import Notice
from placet.ports.clock import Clock
from placet.ports.notifier import NotDelivered, Sent
from placet.rules.announcements import facts_of, says, title_of

_MOST_FACTS = 10
_LONGEST_HEADER, _LONGEST_FACT = 150, 2_000


class SlackNotifier:
    def __init__(self, way: SlackWay, poster: Poster, *, clock: Clock) -> None:
        self._way = way
        self._poster = poster
        self._clock = clock

    async def send(self, notice: Notice) -> Sent:
        try:
            url = secret_of(self._way.url)
        except SecretMissing as missing:
            return NotDelivered(code=missing.code)
        return await self._poster.post(url, message_of(notice), {}, now=self._clock.now())


def message_of(notice: Notice) -> bytes:
    """The body, in ASCII: blocks, and a text for where blocks are not shown."""
    facts = facts_of(notice)
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": _plain(title_of(notice), _LONGEST_HEADER)},
        {"type": "section", "text": _plain(says(notice), _LONGEST_FACT)},
    ]
    for begin in range(0, len(facts), _MOST_FACTS):
        some = facts[begin : begin + _MOST_FACTS]
        fields = [_plain(f"{name}: {value}", _LONGEST_FACT) for name, value in some]
        blocks.append({"type": "section", "fields": fields})
    if notice.url is not None:
        link = f"<{_escaped(notice.url)}|Open it in the console>"
        blocks.append({"type": "section", "text": {"type": "mrkdwn", "text": link, "verbatim": True}})
    document = {
        "text": _escaped(f"{title_of(notice)}. {says(notice)}" + (f" {notice.url}" if notice.url else "")),
        "blocks": blocks,
        "mrkdwn": False,
        "parse": "none",
        "link_names": False,
        "unfurl_links": False,
        "unfurl_media": False,
    }
    return json.dumps(document, separators=(",", ":")).encode("ascii")


def _plain(text: str, longest: int) -> dict[str, Any]:
    """Never cut in the middle of an escape: the text is cut first, and says so."""
    shown = _escaped(text)
    while len(shown) > longest:
        text = text[: max(0, len(text) - (len(shown) - longest) - 5)].rstrip() + " ..."
        shown = _escaped(text)
    return {"type": "plain_text", "text": shown, "emoji": False}


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
