"""Model files here and on the Hub, read without a runtime."""
