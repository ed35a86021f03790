"""Measurements and other long work of the engine."""
