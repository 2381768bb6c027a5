"""Stores: the same verbs over different tables."""
