"""The input box, its suggestions, and prompts to start with."""
