"""Answers of models that run on a server, beside the lanes of those that run here."""
