"""Somebody else's systems, as the demos have them: what such a service does, its process, and how it is spoken to."""
