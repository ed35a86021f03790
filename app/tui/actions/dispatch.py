"""What slash commands and the palette do."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from ....errors import UserError, did_you_mean
from .palette import more_entries
from .table import pairs, parse, typed

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..app import SpecchatApp

SAMPLING = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "seed")
"""Names that /set takes without their table's name."""

EXPORTS = {"html": "HTML", "svg": "SVG", "md": "Markdown", "json": "JSON"}
"""Format → its name in the palette."""


class Commands:
    """Runs commands on a chat."""

    def __init__(self, chat: SpecchatApp) -> None:
        self.chat = chat

    def run(self, text: str) -> None:
        """Run a slash command.

        Raises:
            UserError: it cannot be done; nothing has changed.
        """
        name, arguments = parse(text)
        match name, arguments:
            case "help", _:
                self.chat.show_help()
            case "method", []:
                self.chat.choose_method()
            case "method", [method, *rest]:
                self.method(method, rest)
            case "model", [spec]:
                self.model(spec)
            case "model", _:
                raise UserError("/model takes one name: builtin, a folder, or owner/name on the Hub.")
            case "set", []:
                self.chat.tell(self.settings())
            case "set", _:
                self.set(arguments)
            case "system", words:
                self.chat.prompting.system(words)
            case "preset", words:
                self.chat.prompting.preset(words)
            case "settings", words:
                self.chat.prompting.settings(" ".join(words))
            case "panel", []:
                self.chat.chat_screen.action_next_panel()
            case "panel", [page, *_]:
                self.panel(page)
            case "race", _:
                self.chat.racing.command(arguments)
            case "races", _:
                self.chat.racing.kept.command(arguments)
            case "edit" | "retry" | "regenerate" | "undo", _:
                self.chat.varying.command(name, arguments)
            case "pause", _:
                self.chat.chat_screen.action_pause()
            case "step", []:
                self.chat.chat_screen.action_step()
            case "step", [steps, *_]:
                self.step(steps)
            case "theme", []:
                self.chat.choose_theme()
            case "theme", [theme, *_]:
                self.theme(theme)
            case "markdown", _:
                self.chat.chat_screen.action_markdown()
            case "colours", []:
                self.chat.next_colouring()
            case "colours", [way, *_]:
                self.colours(way)
            case "copy", words:
                self.chat.copying.command(words)
            case "editor", _:
                self.chat.editing.start()
            case "export", _:
                self.chat.saving.command(arguments)
            case "open", []:
                self.chat.saving.go_back()
            case "open", [file]:
                self.chat.saving.open(file)
            case "open", _:
                raise UserError("/open takes one file that /export json wrote; a name with spaces goes in quotes.")
            case "models", words:
                self.chat.models.browse(" ".join(words))
            case "chats", words:
                self.chat.keeping.browse(" ".join(words))
            case "rename", words:
                self.chat.keeping.rename(" ".join(words))
            case "branch", words:
                self.chat.keeping.branch(" ".join(words))
            case "clear", _:
                self.chat.new_chat()
            case "quit", _:
                self.chat.exit()

    def method(self, name: str, arguments: list[str]) -> None:
        """Switch the method, with settings or without."""
        from ....engine.catalog import get, parse_params

        dialogue = self.chat.dialogue
        given = pairs(arguments, "/method NAME key=value …")
        if name not in dialogue.methods:
            get(name)  # raises with the nearest name
        if reason := dialogue.unavailable.get(name):
            raise UserError(f"{name} cannot run on this model: {reason}")
        if given:
            parse_params(get(name), {**dialogue.settings.get(name, {}), **given})
        dialogue.switch(name, {**dialogue.settings.get(name, {}), **given} if given else None)
        self.chat.changed()

    def model(self, spec: str) -> None:
        """Load another model."""
        dialogue = self.chat.dialogue
        if dialogue.busy:
            raise UserError("An answer is being written: stop it with esc, then load another model.")
        dialogue.load_model(spec, backend=self.chat.models.backend_for(spec))
        self.chat.models.remember(spec)
        self.chat.stir()
        self.chat.changed()

    def set(self, arguments: list[str]) -> None:
        """Change sampling or limits from the next answer on."""
        chat = self.chat
        given = pairs(arguments, "/set temperature=0.7")
        allowed = (*SAMPLING, "accept", "max_tokens", "stop", "system")
        for key in given:
            if key not in allowed:
                raise UserError(f"/set knows no {key}: {did_you_mean(key, allowed)}")
        dotted = {f"sampling.{key}" if key in SAMPLING else key: value for key, value in given.items()}
        names = {f"sampling.{key}": key for key in SAMPLING}
        texts = ("accept", "stop", "system")
        chat.configuring.set({key: value if key in texts else typed(value) for key, value in dotted.items()}, names)
        chat.tell(self.settings())

    def panel(self, page: str) -> None:
        """Open a page of the side panel, or close it."""
        from ..chat.side_panel import PAGES

        if page not in (*PAGES, "off"):
            raise UserError(f"There is no panel {page}: {did_you_mean(page, (*PAGES, 'off'))}")
        self.chat.chat_screen.action_panel("" if page == "off" else page)

    def step(self, steps: str) -> None:
        """Take some steps of the answer."""
        if not steps.isdecimal() or not int(steps):
            raise UserError(f"/step takes a number of steps from 1 on, not {steps!r}.")
        self.chat.chat_screen.action_step(int(steps))

    def settings(self) -> str:
        """The sampling settings in force, in a line."""
        sampling = self.chat.settings.sampling
        parts = [f"{name}={getattr(sampling, name)}" for name in SAMPLING]
        parts.append(f"accept={self.chat.settings.accept}")
        parts.append(f"max_tokens={self.chat.settings.max_tokens or 'as many as fit'}")
        return "From the next answer on: " + "  ".join(parts)

    def current(self) -> dict[str, str]:
        """What /set takes, with its value now; empty where none is set."""
        settings = self.chat.settings
        found = {name: getattr(settings.sampling, name) for name in SAMPLING}
        found |= {name: getattr(settings, name) for name in ("accept", "max_tokens", "stop", "system")}
        return {name: "" if value in (None, ()) else str(value) for name, value in found.items()}

    def theme(self, name: str) -> None:
        """Change the colours."""
        known = self.chat.palettes
        if name not in known:
            raise UserError(f"There is no theme {name}: {did_you_mean(name, known)}")
        self.chat.use_theme(name)

    def colours(self, way: str) -> None:
        """Tell runs apart in another way."""
        from ...theming.colouring import WAYS

        found = next((known for known in WAYS if known == way), None)
        if found is None:
            raise UserError(f"There is no way of colouring {way}: {did_you_mean(way, WAYS)}")
        self.chat.use_colouring(found)

    def entries(self) -> Iterator[tuple[str, str, Callable[[], object]]]:
        """Everything for the palette: title, help, what to call."""
        chat, dialogue = self.chat, self.chat.dialogue
        for method in dialogue.methods.values():
            if method.name not in dialogue.unavailable:
                name = method.name
                yield f"Method: {name}", method.summary, lambda name=name: self.method(name, [])  # type: ignore[misc]
        for theme, palette in chat.palettes.items():
            yield f"Theme: {theme}", palette.summary or "Change the colours", partial(self.theme, theme)
        screen = chat.chat_screen
        for page, what in (
            ("numbers", "Speed, run lengths, acceptance, what other draft lengths would give"),
            ("tree", "Each step's token tree: what was drafted, what was accepted"),
            ("method", "How the method in force works, its settings, its figures"),
            ("off", "Close it"),
        ):
            yield f"Side panel: {page}", what, lambda page=page: self.panel(page)  # type: ignore[misc]
        yield "Look into runs", "Why each run ended where it did: what was drafted, what was refused", screen.action_inspect
        yield "Race", "Two to four methods side by side on one prompt", chat.racing.attempt
        for title, help_text, what, *more in (
            ("Edit your last message", "Or the marked one; the chat as it was stays a variant", "edit"),
            ("Retry with the next method", "The new answer stands beside the first one", "retry", []),
            ("Regenerate", "The same settings and seed once more", "regenerate", []),
            ("Regenerate with a new seed", "Another text from the same distribution", "regenerate", ["new"]),
            ("Take back your last message", "It stays a variant of the chat", "undo"),
        ):
            yield title, help_text, partial(chat.varying.attempt, what, *more)
        yield "Races of this chat", "Open one again", chat.racing.kept.attempt
        yield "Pause or go on", "Hold the answer between two steps", screen.action_pause
        yield "One step", "Let a paused answer take one step", screen.action_step
        from ...theming.colouring import WAYS

        for way in WAYS:
            yield f"Colours: {way}", "How runs are told apart", lambda way=way: chat.use_colouring(way)  # type: ignore[misc]
        yield "Markdown", "Show finished answers as Markdown, or their runs again", chat.chat_screen.action_markdown
        yield "Copy the last answer", "To the clipboard", chat.copy_answer
        for format, title in EXPORTS.items():
            yield f"Export the chat as {title}", "Into this folder, with its colours", partial(self.chat.saving.attempt, format)
        yield "Chats", "Search, open, rename, delete", chat.keeping.browse
        yield "New chat", "Start afresh; the model stays loaded", chat.new_chat
        yield "Help", "Keys, commands and methods", chat.show_help
        yield "Quit", "Leave specchat", chat.exit
        yield from more_entries(chat)
