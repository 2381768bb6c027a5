"""The pages of the console, one module each: what is asked of the gate, and which template shows it."""
