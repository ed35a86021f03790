"""The table of methods in docs/methods.md is that of the code."""

from __future__ import annotations

from specchat.app.cli.listing import PAGE, methods_page


def test_the_table_of_methods_is_written() -> None:
    assert PAGE.read_text(encoding="utf-8") == methods_page(), "write it again: python -m specchat.app.cli.listing"
