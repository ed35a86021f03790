"""Files that go with a message."""
