"""What an agent needs of a model: the next answer to a conversation, in the form that most endpoints speak."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from placet.model.json import JsonObject


class Model(Protocol):
    """Answers conversations. Nothing it says is trusted."""

    async def answer(self, messages: Sequence[JsonObject], tools: Sequence[JsonObject]) -> JsonObject:
        """The next answer, as the decoded JSON of a Chat Completions response.

        Args:
            messages: the conversation so far, in Chat Completions form; not to be changed.
            tools: definitions of the tools that may be asked for, in the same form.

        Raises:
            ModelError: there is none. Nothing of this answer was proposed.
        """
        ...
