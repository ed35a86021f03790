"""One conversation: its entries, answers and methods, without a screen or a disk."""
