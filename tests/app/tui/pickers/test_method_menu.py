"""The menu of methods: every one of them, below its group, with what is known of it here."""

from __future__ import annotations

from typing import Any

from textual.app import App, ComposeResult
from textual.widgets import OptionList, Static

from specchat.app.chat.methods import known_methods
from specchat.app.text.lines import StyledLine
from specchat.app.tui.pickers.menu import Menu
from specchat.app.tui.pickers.pick_list import PickList

from ....fakes.pilots import Make, ask, chatting, loaded

NEEDS = "it needs a draft model: load one with --draft-model."


async def ready(pilot: Any, engine: Any, **unavailable: str) -> None:
    """A chat with every method, whose model is loaded."""
    pilot.app.dialogue.methods = known_methods()
    await loaded(pilot, engine, **unavailable)


def rows(menu: Menu) -> list[str]:
    listed = menu.query_one(OptionList)
    return [str(listed.get_option_at_index(i).prompt) for i in range(listed.option_count)]


def about(menu: Menu) -> str:
    return " ".join(str(menu.query_one("#about", Static).render()).split())


async def test_what_suits_the_model_comes_first_and_what_seldom_pays_last(make_chat: Make, engine: Any) -> None:
    """Every method once, below headings in this order; the built-in model's draft model and head are loaded."""
    async with make_chat().run_test(size=(100, 30)) as pilot:
        await ready(pilot, engine, medusa=NEEDS, dflash=NEEDS, mtp=NEEDS, pard=NEEDS)
        await pilot.press("f2")
        menu = pilot.app.screen
        assert isinstance(menu, Menu)
        lines = rows(menu)
        names = [row.replace("●", " ").split()[1] if row[1] == " " and row[0] != "A" else "" for row in lines]
        parts = " ".join(name or "|" for name in names).split("|")
        assert parts[1].split() == pilot.app.dialogue.shortlist()
        assert parts[-1].split() == ["recompute", "ngram", "recycle", "lookahead", "jacobi"]
        listed = [name for name in names if name]
        assert sorted(listed) == sorted(known_methods().keys() - {"medusa", "dflash", "mtp", "pard"})
        assert [row for row, name in zip(lines, names, strict=True) if not name] == [
            "For this model  ",
            "Plain decoding  ",
            "From the text  ",
            "A smaller model  builtin-draft",
            "Trained drafters  ^o m lists others",
            "More methods  ",
        ]
        assert menu.size.height >= len(lines)


async def test_what_cannot_run_says_why_and_a_group_of_it_takes_one_line(make_chat: Make, engine: Any) -> None:
    shut = [name for name, method in known_methods().items() if method.group in ("draft model", "trained")]
    assert len(shut) > 3
    async with chatting(make_chat(), size=(100, 30)) as (app, pilot):
        tree = "it needs tree attention. Load the model with --backend transformers."
        await ready(pilot, engine, lookahead=tree, **dict.fromkeys(shut, NEEDS))
        await pilot.press("f2")
        lines = rows(app.screen)
        assert "A smaller model  no draft model: ^o m finds one" in lines
        assert "Trained drafters  none loaded: ^o m lists those that fit" in lines
        assert not {word for row in lines for word in row.split()[1:3]} & set(shut)
        at = next(i for i, row in enumerate(lines) if " lookahead " in row)
        before = app.dialogue.method
        await pilot.press(lines[at].split()[0])  # the menu stays open
        assert app.dialogue.method == before
        app.screen.query_one(OptionList).highlighted = at
        await pilot.pause()
        assert about(app.screen).startswith("Needs tree attention. Load the model with --backend transformers.")
        await pilot.press("end")  # keys and the cursor go on behind them
        assert about(app.screen).startswith(known_methods()["jacobi"].summary)
        await pilot.press(lines[-1].split()[0])
        assert app.dialogue.method == "jacobi"


def test_menu(picture: Make, engine: Any, make_steps: Make) -> None:
    async def before(pilot: Any) -> None:
        await ready(pilot, engine, draft=NEEDS, tree=NEEDS, eagle=NEEDS, medusa=NEEDS, dflash=NEEDS, mtp=NEEDS, pard=NEEDS)
        text = "the lamp was lit at six, the lamp was out at nine."
        await ask(pilot, engine, f"Say again: {text}", make_steps(text))
        await pilot.press("f2")

    assert picture(before)


class Listing(App[None]):
    """A list of words; those in capitals are headings."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn: list[str] = []
        self.listed = PickList[str](lambda word: None if word.isupper() else word, self.draw)

    def draw(self, word: str, cells: int) -> tuple[StyledLine]:
        self.drawn.append(word)
        return (((word[:cells], ""),),)

    def compose(self) -> ComposeResult:
        yield self.listed


async def test_a_list_draws_what_is_seen_and_passes_over_headings() -> None:
    async with (app := Listing()).run_test(size=(40, 10)) as pilot:
        listed = app.listed
        listed.show(["A", "ant", "B", "bee", "bug"])
        items = [listed.item]
        for by in (1, 9, -9):
            listed.move(by)
            items.append(listed.item)
        assert items == ["ant", "bee", "bug", "ant"]
        listed.show(["A", "ant", "B", "bee"], "bee")
        assert listed.item == "bee"
        listed.show(["A", "ant", "B"], "bee", at=2)
        assert listed.item == "ant", "the nearest"
        listed.show(["A"])
        assert listed.item is None
        app.drawn.clear()
        listed.show([f"word {number}" for number in range(10_000)])
        await pilot.pause()
        assert len(set(app.drawn)) <= 10
        listed.move(20_000)
        await pilot.pause()
        assert listed.item == "word 9999"
        assert "word 9999" in listed.render_line(listed.size.height - 1).text
