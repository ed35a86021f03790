"""Actions of keys and slash commands."""
