"""Checkpointers that make nothing of what they read but plain values, messages, and what is LangGraph's own."""

from __future__ import annotations

import copy
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer


def strict(checkpointer: BaseCheckpointSaver[Any]) -> BaseCheckpointSaver[Any]:
    """The same checkpointer, for reading what somebody else may have written.

    By itself LangGraph imports and calls whatever a checkpoint names. A serializer of the program's own is left alone.
    """
    serde = checkpointer.serde
    if isinstance(serde, EncryptedSerializer):
        inner = serde.serde
        if not isinstance(inner, JsonPlusSerializer):
            return checkpointer
        safe: Any = EncryptedSerializer(serde.cipher, JsonPlusSerializer(allowed_msgpack_modules=None))
    elif isinstance(serde, JsonPlusSerializer):
        safe = JsonPlusSerializer(allowed_msgpack_modules=None)
    else:
        return checkpointer
    clone = copy.copy(checkpointer)
    clone.serde = safe
    return clone
