"""Switching the decoding method, the theme, the colours, the pace and the way of thinking; pausing an answer."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import inf

from textual.content import Content

from ....errors import NotPossible, UserError, did_you_mean
from ...chat.about import default_word, known_word, word_after, words_of
from ...chat.dialogue import Dialogue
from ...chat.methods import GROUPS, PLAIN, SELDOM, SERVER, Method, draft_length, served_method, why_no_length, why_plain
from ...race.models import short_name
from ...settings import actions
from ...settings.keymap import shown_keys
from ...text.cells import fit, one_line
from ...theming.colouring import COLOURINGS, LABEL_STYLES, next_colouring
from ..host import Host
from ..pickers.menu import Menu, MenuItem
from .dispatch import pairs, runs

PACES = (10, 4, 1, 0)
"""Passes a second that the key goes through; 0 is full speed."""

FIRST, MORE = "For this model", "More methods"
"""Headings of the methods that suit a model, and of those that seldom pay."""


def method_settings(dialogue: Dialogue, name: str, changes: Mapping[str, str], *, elsewhere: bool = False) -> dict[str, object]:
    """Merge a method's settings in force with changes as typed.

    Args:
        dialogue: has the methods and their settings.
        name: of the method.
        changes: key → value.
        elsewhere: for a model other than the loaded one, so that its limits do not count.

    Raises:
        UserError: there is no such method (with the nearest), the model cannot run it, or a setting is invalid.
    """
    from ....engine.catalog import get, parse_params

    if name not in dialogue.methods:
        get(name)  # raises with the nearest name
    if not elsewhere and (reason := dialogue.unavailable.get(name)):
        raise UserError(f"{name} cannot run on this model: {reason}")
    settings = {**dialogue.settings.get(name, {}), **changes}
    if changes:
        parse_params(get(name), settings)
    return settings


def method_items(dialogue: Dialogue) -> list[MenuItem]:
    """List the methods for a menu: those that suit the model first, those that seldom pay last. An unavailable one has a
    reason. Where a server decodes, ours are one line, which stands for plain decoding on another model."""
    served = served_method(dialogue.info)
    methods = served or dialogue.methods
    headings = {name: GROUPS.get(method.group, SERVER) for name, method in methods.items()}
    if not served:
        last = {name: MORE for name in SELDOM if name in headings}
        first = dict.fromkeys(dialogue.shortlist(), FIRST)
        headings = first | {name: group for name, group in headings.items() if name not in {**first, **last}} | last
    items = [_method_item(dialogue, methods[name], heading) for name, heading in headings.items()]
    if served:
        items.append(MenuItem(PLAIN, "others", reason=_reason(dialogue, PLAIN), group="specchat's own"))
    return items


def _method_item(dialogue: Dialogue, method: Method, heading: str) -> MenuItem:
    name, label = method.name, dialogue.effective_label(method.name)
    lead = why_plain(dialogue.info) if name == PLAIN else ""
    style = LABEL_STYLES.get(label, "$quiet")
    about = " ".join(filter(None, (lead, method.summary, method.pays)))
    return MenuItem(name, name, label, style, method.summary, reason=_reason(dialogue, name), group=heading, about=about)


def _reason(dialogue: Dialogue, name: str) -> str:
    """Turn the reason why a method is unavailable, a clause such as `it needs a draft model.`, into a sentence."""
    reason = dialogue.unavailable.get(name, "").removeprefix("it ")
    return reason[:1].upper() + reason[1:]


def group_hints(dialogue: Dialogue, keymap: Mapping[str, str]) -> dict[str, str]:
    """Describe the groups of methods that take another model, by heading: that model, or how to get one."""
    if not dialogue.info or dialogue.info.server:  # a server decodes by its own methods
        return {}
    key, unavailable = shown_keys("models", keymap), dialogue.unavailable
    drafts = ", ".join(map(short_name, dialogue.draft_models.values()))
    if "draft" in unavailable:
        drafts = f"no draft model: {key} finds one"
    head = f"{short_name(dialogue.head)}; {key} lists others" if dialogue.head else f"{key} lists others"
    if all(name in unavailable for name, method in dialogue.methods.items() if method.group == "trained"):
        head = f"none loaded: {key} lists those that fit"
    return {GROUPS["draft model"]: drafts, GROUPS["trained"]: head}


def check_name(what: str, name: str, names: Collection[str]) -> str:
    """Return a name that is one of `names`.

    Raises:
        UserError: it is not, with the nearest.
    """
    if name not in names:
        raise UserError(f"There is no {what} {name}: {did_you_mean(name, names)}")
    return name


@dataclass(eq=False)
class Switches:
    """Switches the method, the theme, the colours and the pace, and pauses answers, even in the middle of one."""

    host: Host

    @runs(actions.METHOD_MENU)
    def method(self, *words: str) -> None:
        """Switch to the method `NAME key=value …`; without words, choose one."""
        dialogue, keymap = self.host.dialogue, self.host.live.keymap
        if words:
            name, *rest = words
            changes = pairs(rest, "/method NAME key=value …")
            settings = method_settings(dialogue, name, changes)
            dialogue.switch(name, settings if changes else None)
            self.host.changed()
            return
        current, group = dialogue.switching or dialogue.method, group_hints(dialogue, keymap)
        self.host.ask(Menu("Decoding method", method_items(dialogue), current, keymap, group_hints=group), self.method)

    @runs(actions.NEXT_METHOD)
    def next_method(self) -> None:
        """Switch to the next of the methods that suit this model."""
        if self.host.dialogue.next_method() is None:
            why = ": its server decides how it decodes" if self.host.dialogue.info.server else ""
            self.host.tell(f"This model has only one method{why}.")
        self.host.changed()

    @runs(actions.PAUSE)
    def pause(self) -> None:
        self._show(self.host.dialogue.pause())

    @runs(actions.STEP)
    def step(self, *words: str) -> None:
        """Take one pass of the answer, or N, then pause it."""
        steps = words[0] if words else "1"
        if not steps.isdecimal() or not int(steps):
            raise UserError(f"/pass takes a number of passes from 1 up, not {steps!r}.")
        self._show(self.host.dialogue.step(int(steps)))

    def _show(self, changed: bool) -> None:
        """Redraw after a change of the answer; without one, show the key for slower answers."""
        if changed:
            self.host.expect_events()
            self.host.changed()
            return
        dialogue, key = self.host.dialogue, shown_keys("pace", self.host.live.keymap)
        self.host.tell(f"No answer is being written. {key} slows the next one down.", until=lambda: dialogue.busy)

    @runs(actions.PACE)
    def pace(self, *words: str) -> None:
        """Take N passes a second from the next one on, in answers and races; without words, the next of PACES."""
        live, dialogue = self.host.live, self.host.dialogue
        if dialogue.info.server:
            raise NotPossible("A server decodes at its own pace.")
        after = next((pace for pace in PACES if pace < (dialogue.pace or inf)), 0)
        live.set({"pace": words[0] if words else after}, {"pace": "/pace"})
        if dialogue.pace != live.settings.pace:  # that of one answer
            dialogue.set_pace(live.settings.pace)
        self._flash("passes a second", {str(pace or "full speed"): pace == dialogue.pace for pace in PACES})

    @runs(actions.THEME_MENU)
    def theme(self, *words: str) -> None:
        """Switch to another theme, for later chats too; without words, choose one."""
        themes, before = self.host.themes, self.host.themes.name
        if words:
            self.host.live.keep({"theme": check_name("theme", words[0], list(themes.palettes))})
            return

        def choose(name: str | None) -> None:
            themes.use(before)
            if name is not None:
                self.theme(name)

        items = [
            MenuItem(name, fit(one_line(name), 10), detail=palette.summary, sample=themes.palette_for(name).sample())
            for name, palette in themes.palettes.items()
        ]
        self.host.push_screen(Menu("Theme", items, before, self.host.live.keymap, themes.use), choose)

    @runs(actions.THINK)
    def think(self, *words: str) -> None:
        """Change how the model thinks from the next answer of this chat on; without words, to the next of its ways."""
        info, live = self.host.dialogue.info, self.host.live
        if not info:
            raise NotPossible("No model is loaded yet.")
        word = known_word(info, words[0]) if words else word_after(info, live.settings.think)
        live.set({"think": "" if word == default_word(info) else word})
        self._flash("thinking", {name: name == word for name in words_of(info)})

    def _flash(self, what: str, choices: Mapping[str, bool]) -> None:
        """Show the choices of a key that goes through them; the one in force stands out."""
        parts = [(f"{name}  ", "bold $foreground" if chosen else "$quiet") for name, chosen in choices.items()]
        self.host.flash(Content.assemble((f"{what}: ", "$quiet"), *parts))
        self.host.changed()

    @runs(actions.COLOURS)
    def colours(self, *words: str) -> None:
        """Change how runs are coloured, in later chats too; without words, to the next way."""
        colouring = check_name("way of colouring", words[0], COLOURINGS) if words else next_colouring(self.host.view.colouring)
        self.host.live.keep({"colours": colouring})


def lengthen(dialogue: Dialogue, direction: int) -> str:
    """Make drafts longer (1) or shorter (−1) from the next step on; return a sentence about the change."""
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
