"""What a key, a slash command or the palette does."""
