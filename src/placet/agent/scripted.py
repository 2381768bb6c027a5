"""A model that says what a script says: for tests and demos, and to see what a gate does to a given turn."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from placet.errors import ModelError
from placet.model.json import JsonObject, JsonValue

Line = JsonObject | Callable[[Sequence[JsonObject]], JsonObject]
"""One answer, or a function from the conversation so far to it."""


def text(words: str) -> JsonObject:
    """An answer in words, which ends the work."""
    return _response({"role": "assistant", "content": words}, "stop")


def calls(*asked: tuple[str, object], finish_reason: str = "tool_calls") -> JsonObject:
    """An answer that asks for these tools: name and arguments, as a value or as the JSON text that a model writes."""
    listed: list[JsonValue] = [
        {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": _written(arguments)}}
        for number, (name, arguments) in enumerate(asked)
    ]
    return _response({"role": "assistant", "content": None, "tool_calls": listed}, finish_reason)


class ScriptedModel:
    """Says its lines in their order, whatever it is told; the line after the last is a fault.

    Attributes:
        heard: each conversation that it was asked to answer, as it was then.
    """

    def __init__(self, script: Iterable[Line]) -> None:
        self._script = iter(script)
        self.heard: list[list[JsonObject]] = []

    async def answer(self, messages: Sequence[JsonObject], tools: Sequence[JsonObject]) -> JsonObject:
        self.heard.append(list(messages))
        line = next(self._script, None)
        if line is None:
            raise ModelError("The script of the model has ended.", code="script_ended")
        return line(messages) if callable(line) else line


def _response(message: JsonObject, finish_reason: str) -> JsonObject:
    return {"choices": [{"index": 0, "finish_reason": finish_reason, "message": message}]}


def _written(arguments: Any) -> str:
    return arguments if type(arguments) is str else json.dumps(arguments, ensure_ascii=False)
