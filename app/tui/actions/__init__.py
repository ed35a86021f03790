"""What a key or a slash command does."""
