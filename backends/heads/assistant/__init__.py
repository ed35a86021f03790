"""Gemma 4's assistants, which attend to the target's own keys and values."""
