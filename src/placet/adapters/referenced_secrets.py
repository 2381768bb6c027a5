"""Secrets where the configuration says they are, read each time they are needed, so that a new one is used at once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from placet.model.destinations import SecretPlace, SecretRef

_LARGEST = 16_384


class SecretMissing(Exception):
    """It is not there, is empty, or cannot be read."""

    code = "secret_missing"


class SecretMalformed(SecretMissing):
    """Something is there, and not what it should be."""

    code = "secret_malformed"


def secret_of(ref: SecretRef) -> str:
    """The secret, without the line's end that a file has.

    Raises:
        SecretMissing: there is none.
        SecretMalformed: what is there is not one line of ASCII.
    """
    found = _RAW[ref.place](ref.name)
    text = found.rstrip("\r\n")
    if not text:
        raise SecretMissing
    if not text.isascii() or not text.isprintable():
        raise SecretMalformed
    return text


def _from_environment(name: str) -> str:
    return os.environ.get(name, "")


def _from_file(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            return file.read(_LARGEST).decode("latin-1")  # whoever asks looks whether it is ASCII
    except (OSError, ValueError):
        pass
    raise SecretMissing


_RAW: Final = {SecretPlace.ENVIRONMENT: _from_environment, SecretPlace.FILE: _from_file}
