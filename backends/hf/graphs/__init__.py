"""Passes over buffers that never move, so that a GPU can be told a whole pass at once."""
