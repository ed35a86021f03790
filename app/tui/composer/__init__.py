"""The input box and what helps it."""
