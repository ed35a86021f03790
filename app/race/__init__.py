"""Lanes that race on one prompt, without a screen."""
