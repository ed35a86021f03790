"""Generators of the text that the built-in models learn: one kind of task a file."""
