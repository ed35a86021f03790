"""The chat screen around the text."""
