"""Base classes of sessions, shared by the runtimes."""
