"""The Llama family's own quick forward pass, and weights packed for it."""
