"""The transcript, and other views of runs and lines."""
