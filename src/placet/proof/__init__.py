"""Evidence in the user's own hands."""
