"""Answers of models that run on a server."""
