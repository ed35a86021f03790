"""Switching to another decoding method, another theme, another way of telling runs apart, by key, command or menu; and an
answer held between two passes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import inf
from typing import TYPE_CHECKING, Any

from textual.content import Content

from ....engine.options import BUILTIN, BUILTIN_EAGLE, draft_names
from ....errors import NotPossible, UserError, did_you_mean
from ...chat.about import default_word, known_word, word_after, words_of
from ...chat.choosing import PLAIN, SELDOM, exits_early, why_plain
from ...chat.dialogue import Dialogue
from ...chat.methods import GROUPS, SERVER, Method, draft_length, draft_reach, served_method, why_no_length
from ...race.guests import short_name
from ...render.verdict import against
from ...settings import actions
from ...settings.keymap import shown_keys
from ...text.cells import fit, one_line
from ...theming.colouring import COLOURINGS, LABEL_STYLES, next_colouring
from ..host import Host
from .registry import runs
from .table import pairs

if TYPE_CHECKING:
    from ..pickers.menu import MenuItem


PACES = (10, 4, 1, 0)
"""Passes a second that the key goes through; 0 is full speed."""


FIRST, MORE = "For this model", "More methods"
"""Headings of the methods that suit a model, and of those that seldom pay."""


def method_settings(dialogue: Dialogue, name: str, given: Mapping[str, str], *, elsewhere: bool = False) -> dict[str, Any]:
    """What a method would run with: its settings in force, and those given.

    Args:
        dialogue: has the methods.
        name: of one.
        given: settings, as typed.
        elsewhere: on another model than the loaded one, which alone is known to run it or not.

    Raises:
        UserError: there is no such method (with the nearest), the model cannot run it, or a setting is not as it must be.
    """
    from ....engine.catalog import get, parse_params

    if name not in dialogue.methods:
        get(name)  # raises with the nearest name
    if not elsewhere and (reason := dialogue.unavailable.get(name)):
        raise UserError(f"{name} cannot run on this model: {reason}")
    settings = {**dialogue.settings.get(name, {}), **given}
    if given:
        parse_params(get(name), settings)
    return settings


def method_items(dialogue: Dialogue) -> list[MenuItem]:
    """The methods, for a menu: those that suit the model first, those that seldom pay last; one that the model cannot run says
    why. Where a server decides, ours are one line, which stands for plain decoding on another model."""
    from ..pickers.menu import MenuItem

    reasons, info = dialogue.unavailable, dialogue.info
    served = served_method(info)
    why = {PLAIN: why_plain(info)}
    others = [MenuItem(PLAIN, "others", reason=_sentence(reasons.get(PLAIN, "")), group="specchat's own")] if served else []
    headings = {name: GROUPS.get(method.group, SERVER) for name, method in (served or dialogue.methods).items()}
    if not served:
        last = {name: MORE for name in SELDOM if name in headings}
        first = dict.fromkeys(dialogue.shortlist(), FIRST)
        headings = first | {name: group for name, group in headings.items() if name not in {**first, **last}} | last
    return [
        MenuItem(
            method.name,
            method.name,
            label := dialogue.effective_label(method.name),
            LABEL_STYLES.get(label, "$quiet"),
            method.summary,
            reason=_sentence(reasons.get(method.name, "")),
            group=heading,
            lead=why.get(method.name) or _measured(dialogue, method.name),
            more=" ".join(filter(None, (draft_reach(method, info)[1], method.pays))),
        )
        for name, heading in headings.items()
        if (method := (served or dialogue.methods)[name])
    ] + others


def _sentence(reason: str) -> str:
    """A reason as a sentence of its own: `it needs a draft model.` stands behind a colon elsewhere."""
    reason = reason.removeprefix("it ")
    return reason[:1].upper() + reason[1:]


def _measured(dialogue: Dialogue, method: str) -> str:
    """A sentence on how fast a method was here when it was last compared; empty where that is not known."""
    ratio = dialogue.speedup(method)
    return f"Last time {against(ratio)[0]}." if ratio and method != PLAIN else ""


def group_hints(dialogue: Dialogue, keymap: Mapping[str, str]) -> dict[str, str]:
    """What is known of the groups of methods on this model and this text, by their headings."""
    hints: dict[str, str] = {}
    if dialogue.info.get("server"):  # what keeps ours from decoding is none of these
        return hints
    models = dialogue.draft_models
    trained = [name for name, method in dialogue.methods.items() if method.group == "trained"]
    if dialogue.info and "draft" in dialogue.unavailable:
        hints["draft model"] = f"no draft model: {shown_keys('models', keymap)} finds one"
    elif models:
        hints["draft model"] = ", ".join(short_name(name) for name in models.values())
    if not all(name in dialogue.unavailable for name in trained):
        asked = draft_names(dialogue.load.get("draft_model"))
        own = [BUILTIN_EAGLE] if dialogue.model == BUILTIN else []
        heads = [dialogue.head] if dialogue.head in asked else asked or own
        loaded = ", ".join(map(short_name, heads)) or ("a layer of this model's own" if dialogue.info else "none yet")
        hints["trained"] = f"{loaded}; {shown_keys('models', keymap)} lists others"
    elif dialogue.info:
        hints["trained"] = f"none loaded: {shown_keys('models', keymap)} lists those that fit"
    if "early-exit" not in dialogue.unavailable:
        hints["own layers"] = "this model was trained for it" if exits_early(dialogue.model) else "for models trained for it"
    return {GROUPS[group]: hint for group, hint in hints.items()}


def known(what: str, name: str, names: Collection[str]) -> str:
    """A name that must be one of some.

    Raises:
        UserError: it is none, with the nearest.
    """
    if name not in names:
        raise UserError(f"There is no {what} {name}: {did_you_mean(name, names)}")
    return name


class Switches:
    """Switches the method, the theme and the colours, and holds answers, also in the middle of one."""

    def __init__(self, host: Host) -> None:
        self.host = host

    @runs(actions.METHOD_MENU)
    def method(self, *words: str) -> None:
        """Switch to the method `NAME key=value …`; alone, choose."""
        if not words:
            self._choose_method()
            return
        name, *rest = words
        given = pairs(rest, "/method NAME key=value …")
        settings = method_settings(self.host.dialogue, name, given)
        self.host.dialogue.switch(name, settings if given else None)
        self.host.changed()

    def _choose_method(self) -> None:
        from ..pickers.method_menu import MethodMenu

        dialogue = self.host.dialogue
        items = method_items(dialogue)
        keymap = self.host.live.keymap
        current, known = dialogue.switching or dialogue.method, group_hints(dialogue, keymap)
        self.host.ask(MethodMenu("Decoding method", items, current, known, keymap), self.method)

    @runs(actions.NEXT_METHOD)
    def next_method(self) -> None:
        """Switch to the next of the methods worth a try on this model."""
        if self.host.dialogue.next_method() is None:
            server = "its server decides how it decodes."
            only = f"This model has only one method: {server}" if self.host.dialogue.info.get("server") else ""
            self.host.tell(only or "This model has only one method.")
        self.host.changed()

    @runs(actions.PAUSE)
    def pause(self) -> None:
        dialogue = self.host.dialogue
        if dialogue.phase == "stopping":
            self.host.tell("Stopping the answer.", until=lambda: dialogue.phase != "stopping")
        elif dialogue.pause():
            self.host.stir()
            self.host.changed()
        else:
            self._tell_idle()

    def _tell_idle(self) -> None:
        """Say that there is no pass to hold, and what holds the next ones."""
        dialogue, key = self.host.dialogue, shown_keys("pace", self.host.live.keymap)
        self.host.tell(f"No answer is being written. {key} slows the next one down.", until=lambda: dialogue.busy)

    @runs(actions.PACE)
    def pace(self, *words: str) -> None:
        """Take N passes a second from the next one on, in answers and races; alone, the next of PACES."""
        live, dialogue = self.host.live, self.host.dialogue
        if dialogue.info.get("server"):
            raise NotPossible("A server decodes at its own pace.")
        after = next((pace for pace in PACES if pace < (dialogue.pace or inf)), 0)
        live.set({"pace": words[0] if words else after}, {"pace": "/pace"})
        if dialogue.pace != live.settings.pace:  # that of one answer
            dialogue.set_pace(live.settings.pace)
        parts = [(f"{pace or 'full speed'}  ", "bold $foreground" if pace == dialogue.pace else "$quiet") for pace in PACES]
        self.host.flash(Content.assemble(("passes a second: ", "$quiet"), *parts))
        self.host.changed()

    @runs(actions.STEP)
    def step(self, *words: str) -> None:
        """Let the answer take a step, or N; it is paused after them."""
        dialogue, steps = self.host.dialogue, words[0] if words else "1"
        if not steps.isdecimal() or not int(steps):
            raise UserError(f"/pass takes a number of passes from 1 up, not {steps!r}.")
        if dialogue.step(int(steps)):
            self.host.stir()
            self.host.changed()
        else:
            self._tell_idle()

    @runs(actions.THEME_MENU)
    def theme(self, *words: str) -> None:
        """Switch to another theme, for later chats too; alone, choose. A doubt about it is told."""
        if not words:
            self._choose_theme()
            return
        themes = self.host.themes
        name = known("theme", words[0], list(themes.palettes))
        self.host.live.keep({"theme": name})

    def _choose_theme(self) -> None:
        from ..pickers.menu import Menu, MenuItem

        themes = self.host.themes
        before = themes.name

        def chosen(name: str | None) -> None:
            themes.wear(before)
            if name is not None:
                self.theme(name)

        items = [
            MenuItem(name, fit(one_line(name), 10), detail=palette.summary, sample=themes.shown(name).sample())
            for name, palette in themes.palettes.items()
        ]
        self.host.push_screen(Menu("Theme", items, before, self.host.live.keymap, themes.wear), chosen)

    @runs(actions.THINK)
    def think(self, *words: str) -> None:
        """Let the model think in another way, from the next answer of this chat on; alone, in the next of its ways."""
        info, live = self.host.dialogue.info, self.host.live
        if not info:
            raise NotPossible("No model is loaded yet.")
        word = known_word(info, words[0]) if words else word_after(info, live.settings.think)
        live.set({"think": "" if word == default_word(info) else word})
        self.host.changed()
        parts = [(f"{each}  ", "bold $foreground" if each == word else "$quiet") for each in words_of(info)]
        self.host.flash(Content.assemble(("thinking: ", "$quiet"), *parts))

    @runs(actions.COLOURS)
    def colours(self, *words: str) -> None:
        """Colour runs in another way, everywhere at once and in later chats too; alone, in the next one."""
        way = known("way of colouring", words[0], COLOURINGS) if words else next_colouring(self.host.view.colouring)
        self.host.live.keep({"colours": way})


def lengthen(dialogue: Dialogue, direction: int) -> str:
    """Make the drafts of the method in force longer (1) or shorter (−1) from the next step on; says what was done."""
    name = dialogue.switching or dialogue.method
    method, settings = dialogue.methods.get(name) or Method(name), dialogue.settings.get(name, {})
    length = draft_length(method, settings)
    if length is None:
        return why_no_length(method)
    size = length.next_size(direction)
    if size == length.value:
        return f"{name} · {length.setting} {size} is the {'most' if direction > 0 else 'least'}"
    dialogue.switch(name, {**settings, length.setting: size})
    return f"{name} · {length.setting} {length.value} → {size}"
