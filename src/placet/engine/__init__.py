"""The order in which things happen."""
