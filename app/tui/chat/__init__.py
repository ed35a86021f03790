"""The chat screen and its widgets."""
