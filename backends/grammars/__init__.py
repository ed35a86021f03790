"""Constraints on an answer: JSON schemas, regexes and grammars, compiled by llguidance."""
