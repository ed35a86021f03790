"""Everything that is chosen from a list or written in a box."""
