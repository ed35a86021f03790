"""What is said on the screen, as rows of text."""
