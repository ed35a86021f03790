"""The terminal as a device: colours, clipboard, pipes, editors."""
