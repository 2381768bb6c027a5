"""Libraries that come with an extra: how to get those that are not here."""

from __future__ import annotations


def how_to_install(*extras: str) -> str:
    """The command. It names a checkout: that is where placet comes from until it is published somewhere."""
    return f'pip install "/path/to/checkout[{",".join(extras)}]"'
