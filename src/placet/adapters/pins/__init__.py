"""What was accepted of the upstreams, in a file of the project."""

from placet.adapters.pins.file import NoPinFile, PinFile

__all__ = ["NoPinFile", "PinFile"]
