"""docs/keys.md says what the tables say, and keys are spelled as people write them."""

from __future__ import annotations

import pytest

from specchat.app.settings.keymap import ALL, GROUPS, display, spell
from specchat.app.tui.actions.table import COMMANDS, PAGE, page


def test_the_page_is_what_the_tables_make_it() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "write it again: python -m specchat.app.tui.actions.table"


def test_every_key_and_command_is_on_it() -> None:
    text = page()
    for key in ALL:
        assert f"`{key.id}`" in text
    for command in COMMANDS:
        assert f"`/{command.command}" in text
    for row in text.splitlines():
        if row.startswith("|"):
            assert row.replace("\\|", "").count("|") in (3, 4, 7), row


def test_ids_are_unique_and_every_group_is_told() -> None:
    assert len({key.id for key in ALL}) == len(ALL) == sum(len(keys) for keys in GROUPS.values())


@pytest.mark.parametrize(
    ("keys", "spelled", "first"),
    [
        ("ctrl+n", "ctrl+n", "^n"),
        ("f3,ctrl+t", "F3 · ctrl+t", "F3"),
        ("alt+equals_sign", "alt+=", "alt+="),
        ("ctrl+down,alt+minus", "ctrl+down · alt+-", "ctrl+down"),
        ("plus,a,equals_sign", "+ · a · =", "+"),
        ("escape", "esc", "esc"),
        ("alt+left,alt+comma", "alt+left · alt+,", "alt+left"),
        ("ctrl+pageup", "ctrl+pgup", "ctrl+pgup"),
        ("up", "↑", "↑"),
        ("shift+f3", "shift+F3", "shift+F3"),
        ("f", "f", "f"),
    ],
)
def test_keys_are_spelled_as_people_write_them(keys: str, spelled: str, first: str) -> None:
    assert spell(keys) == spelled
    assert display(keys) == first


def test_no_internal_name_of_a_key_is_shown() -> None:
    for key in ALL:
        assert "_" not in spell(key.keys), key.id
