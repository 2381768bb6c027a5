"""Audit sinks: who else hears."""
