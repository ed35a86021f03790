"""Keys: which matter now, the bar and the help that show them, the leader key, and a check of what arrives from a terminal."""
