"""The text itself."""
