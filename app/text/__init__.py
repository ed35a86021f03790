"""What a terminal cell can show; lines, amounts and wrapping."""
