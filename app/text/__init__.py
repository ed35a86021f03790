"""Text in terminal cells; lines, amounts and wrapping."""
