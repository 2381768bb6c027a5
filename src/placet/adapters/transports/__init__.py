"""Transports: carry an attempt and report what is known."""
