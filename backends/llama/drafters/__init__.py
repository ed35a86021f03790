"""Drafters that llama.cpp itself runs: GGUF files beside a target on llama.cpp."""
