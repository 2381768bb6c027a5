"""Every decision, with no side effects: values in, values out."""
