"""System prompts, presets and settings in the chat: what /system, /preset and /settings do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....engine.options import SHAPES
from ....errors import NotPossible, UserError, did_you_mean
from ...settings import actions
from ...settings.fields import SAMPLING, Settings
from ...settings.file import from_text
from ...settings.shape import constraint_name, constraint_summary
from ...text.cells import fit, one_line
from ..host import Host
from .registry import runs
from .table import pairs, typed

LIMITS = ("accept", "max_tokens", "stop", "stop_loops", "think", "think_budget", "template_var", "system")
"""What /set takes besides the names of SAMPLING, which need no table's name."""

PRESET_WORDS = {
    "save": "what this chat is set to, under a name",
    "edit": "write one anew",
    "delete": "delete one",
    "undo": "restore the last one deleted",
    "none": "use none in this chat",
}
"""Words that /preset takes before a name, or for one → what each does."""

SYSTEM_ABOUT = "The system prompt of this chat: the model reads it before everything else. Empty it to do without."


class SettingsCommands:
    """System prompt, presets and settings of the chat: /system, /preset, /settings, /set."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._warmer = 0.0
        """The temperature that was set in the chat before `temperature` made it 0; 0 if none was."""

    @runs(actions.SETTINGS)
    def settings(self, *words: str) -> None:
        """Show every setting; with words, those that have them."""
        from ..pickers.settings import SettingsScreen

        self.host.ask(SettingsScreen(self.host, " ".join(words)))

    @runs(actions.SET)
    def set(self, *words: str) -> None:
        """Change sampling or limits, `key=value …`, from the next answer on; alone, tell them."""
        given = pairs(words, "/set temperature=0.7")
        for key in given:
            if key not in (*SAMPLING, *LIMITS):
                raise UserError(f"There is no setting {key}: {did_you_mean(key, (*SAMPLING, *LIMITS))}")
        if given:
            values = {key: from_text(key, value) if key in LIMITS else typed(value) for key, value in given.items()}
            names = {f"sampling.{key}": key for key in SAMPLING}
            self.host.live.set({f"sampling.{key}" if key in SAMPLING else key: value for key, value in values.items()}, names)
        self._tell_sampling()

    @runs(actions.TEMPERATURE)
    def temperature(self) -> None:
        """Temperature 0 for this chat, or what counts without that."""
        live, key = self.host.live, "sampling.temperature"
        if live.settings.sampling.temperature:
            self._warmer = live.layers.chat.get(key, 0.0)
            live.set({key: 0.0})
        elif self._warmer:
            live.set({key: self._warmer})
        else:
            live.unset(key)
        if not live.settings.sampling.temperature and key not in live.layers.chat:
            raise NotPossible(
                "The temperature is 0, and neither your settings nor this model name another: /set temperature=0.7"
            )
        self._tell_sampling()
        self.host.changed()

    def _tell_sampling(self) -> None:
        live = self.host.live
        now = set_now(live.settings)
        parts = [f"{name}={now[name] or None}" for name in (*SAMPLING, "accept")]
        parts += [f"max_tokens={now['max_tokens'] or 'as many as fit'}", f"stop_loops={now['stop_loops']}"]
        if live.layers.origin("sampling.temperature").kind == "makers":
            parts.append("(recommended for this model)")
        self.host.tell("From the next answer on: " + "  ".join(parts))

    @runs(actions.SCHEMA)
    def schema(self, *words: str) -> None:
        """Set what answers must match, from the next one on; alone, tell it."""
        text = words[0].strip() if words else ""
        if text:
            kind, _, rest = text.partition(" ")
            told: dict[str, Any] = {"schema": text}
            if text in ("json", "off"):
                told = {"json_object": text == "json"}
            elif kind in ("regex", "grammar") and rest.strip():
                told = {kind: rest.strip()}
            nothing: dict[str, Any] = {**dict.fromkeys(SHAPES, ""), "json_object": False}
            self.host.live.set(nothing | told, dict.fromkeys(SHAPES, "/schema"))
            self.host.changed()
        constraint = self.host.dialogue.options.constraint
        if not (name := constraint_name(constraint)):
            self.host.tell("Answers may be anything. /schema constrains them: FILE, {…}, json, regex PATTERN or grammar FILE.")
        elif text:
            self.host.tell(f"From the next answer on: {name}.")
        else:
            self.host.tell(f"Answers match {constraint_summary(constraint)}. /schema off ends it.")

    # System prompts

    @runs(actions.SYSTEM)
    def system(self, *words: str) -> None:
        """Show and write the system prompt in a screen, or set it to a text; `""` empties it."""
        if not words:
            self.write_system()
            return
        text = words[0].strip()
        self.set_system("" if text in ('""', "''", "“”") else text)

    def set_system(self, text: str) -> None:
        self.host.live.set({"system": text})
        shown = fit(one_line(text.strip()), 60)
        stop = "" if shown.endswith(tuple(".!?…")) else "."
        said = f"The system prompt is now “{shown}”{stop}" if shown else "The system prompt is now empty."
        self.host.tell(said)
        self.host.changed()

    def write_system(self) -> None:
        from ..pickers.text import TextScreen

        before = self.host.dialogue.transcript.system or ""

        def written(text: str) -> None:
            if text.rstrip() != before:
                self.set_system(text.rstrip())

        self.host.ask(TextScreen("System prompt", before, SYSTEM_ABOUT, self.host.live.keymap), written)

    # Presets

    @runs(actions.PRESETS)
    def preset(self, *words: str) -> None:
        match list(words):
            case []:
                self.browse()
            case ["save"]:
                name = self.host.live.layers.preset_name
                if not name:
                    raise UserError("No preset is in use. /preset save NAME makes one from this chat.")
                self.save(name, again=True)
            case ["save", *rest]:
                again = rest[-1] == "!"
                self.save(" ".join(rest[:-1] if again else rest), again=again)
            case ["delete", *rest]:
                self.delete(" ".join(rest) or self.host.live.layers.preset_name)
            case ["undo"]:
                self.undo()
            case ["edit", *rest]:
                self.edit(" ".join(rest) or self.host.live.layers.preset_name)
            case ["none"]:
                self.host.live.no_preset()
                self.host.changed()
                self.host.tell("No preset is in use and nothing is set for this chat alone, so the settings apply.")
            case _:
                self.use(" ".join(words))

    def browse(self) -> None:
        from ..pickers.presets import PresetsScreen

        self.host.ask(PresetsScreen(self.host.live, self.use, self.save, self.edit))

    def use(self, name: str) -> None:
        """Use a preset.

        Raises:
            UserError: there is none of this name.
        """
        from ...settings.presets import Preset

        problems = self.host.live.preset(name)
        self.host.changed()
        holds = fit(Preset(self.host.live.layers.preset_name, self.host.live.layers.preset).summary, 100)
        self.host.tell(f"Preset {one_line(name)} is in use: {holds}")
        for problem in problems:
            self.host.tell(problem, "warning")

    def save(self, name: str, *, again: bool = False) -> None:
        """Make a preset of this chat.

        Args:
            name: its name.
            again: also where there is one of that name, whose comments stay.
        """
        from dataclasses import replace

        from ...settings.presets import clean_name, names, save_preset
        from ...text.amounts import short_path

        name = clean_name(name)
        if name in PRESET_WORDS:
            raise UserError(f"/preset {name} is a command. Choose another name for the preset.")
        if name in names() and not again:
            raise UserError(
                f"There is already a preset {name}. Press enter again, or use /preset save {name} !, to overwrite it."
            )
        configuring = self.host.live
        values = configuring.current()
        path = save_preset(name, values)
        layers = configuring.layers
        chat = {key: value for key, value in layers.chat.items() if key not in values}
        configuring.use(replace(layers, preset=values, preset_name=name, chat=chat))
        self.host.tell(f"Saved as preset {name}, in {short_path(path)}.")

    def delete(self, name: str) -> None:
        """Delete a preset; /preset undo brings it back."""
        from ...settings.presets import delete_preset

        if not name:
            raise UserError("/preset delete takes the name of a preset; /preset lists them.")
        self.host.tell(f"Deleted the preset {delete_preset(name)}. /preset undo restores it.")

    def undo(self) -> None:
        """Bring back the preset that was deleted last."""
        from ...settings.presets import last_deleted, restore_preset

        name = last_deleted()
        if not name:
            raise NotPossible("There is no deleted preset.")
        self.host.tell(f"Restored the preset {restore_preset(name)}.")

    def edit(self, name: str, then: Callable[[], object] = lambda: None) -> None:
        """Edit a preset's file in a screen; `then` is called when it is kept."""
        from ...settings.presets import path_of, preset_of, read_preset, save_text
        from ...settings.toml import read_text
        from ..pickers.text import TextScreen

        if not name:
            raise UserError("/preset edit takes the name of a preset; /preset lists them.")
        path = path_of(name)
        before = read_text(path)
        if before is None:
            read_preset(name)  # says which there are

        def check(text: str) -> None:
            found = preset_of(path.stem, text, path.name)
            if found.problems:
                raise UserError(found.problems[0])

        def written(text: str) -> None:
            try:
                save_text(path.stem, text)
                if self.host.live.layers.preset_name == path.stem:
                    self.host.live.preset(path.stem)
                    self.host.changed()
            except UserError as error:
                self.host.tell(str(error), "warning")
                return
            self.host.tell(f"Saved the preset {path.stem}.")
            then()

        about = "As in the settings file: system, method, max_tokens, stop, [sampling], [methods.NAME]; about describes it."
        self.host.ask(TextScreen(f"Preset {path.stem}", before or "", about, self.host.live.keymap, check), written)


def set_now(settings: Settings) -> dict[str, str]:
    """What /set takes, with its value now; empty where none is set."""
    found = {name: getattr(settings.sampling, name) for name in SAMPLING}
    found |= {name: getattr(settings, name) for name in LIMITS}
    found["stop_loops"] = "on" if settings.stop_loops else "off"
    return {name: "" if value in (None, ()) else str(value) for name, value in found.items()}
