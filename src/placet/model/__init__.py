"""Nouns: frozen, slotted, keyword-only values. They decide nothing and know no library."""
