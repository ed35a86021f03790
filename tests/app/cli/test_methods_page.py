"""The tables in docs/methods.md and docs/settings.md are those of the code."""

from __future__ import annotations

from specchat.app.cli.listing import pages


def test_the_tables_are_written() -> None:
    for page, text in pages():
        assert page.read_text(encoding="utf-8") == text, "write it again: python -m specchat.app.cli.listing"
