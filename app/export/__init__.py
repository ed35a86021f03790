"""Chats and races as HTML, SVG, Markdown and JSON files."""
