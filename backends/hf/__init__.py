"""The transformers runtime."""
