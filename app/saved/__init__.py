"""Chats and races as JSON, read back checked."""
