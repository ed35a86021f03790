"""The screen, drawn by Textual."""
