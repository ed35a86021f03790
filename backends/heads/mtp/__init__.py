"""MTP layers in a model's own checkpoint as its drafters."""
