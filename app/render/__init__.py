"""The screen's pages and transcript as rows of text."""
