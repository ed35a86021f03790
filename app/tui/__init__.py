"""What is seen and pressed, drawn by Textual."""
