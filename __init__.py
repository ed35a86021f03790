"""specchat: a chat in the terminal that shows how a local language model decodes."""

__version__ = "0.1.0"
