"""Trained drafters: small networks that draft for one target out of its hidden states."""
