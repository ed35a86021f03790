"""Thoughts: how a model's template marks them, parting a stream into thought and answer, and sending a thought back."""
