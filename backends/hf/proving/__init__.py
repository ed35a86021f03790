"""What a transformers model can do, proven at load."""
