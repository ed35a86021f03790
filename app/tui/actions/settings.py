"""System prompts, presets and settings in the chat: /system, /preset, /settings, /set, /schema."""

from __future__ import annotations

from ....engine.options import ANSWERING, CONSTRAINTS
from ....errors import NotPossible, UserError, did_you_mean
from ...settings import actions
from ...settings.fields import SAMPLING, Settings
from ...settings.rows import constraint_name, preset_summary
from ...text.amounts import short_path
from ...text.cells import fit, one_line
from ..host import Host
from ..pickers.menu import Menu, MenuItem
from .dispatch import pairs, runs

LIMITS = (*ANSWERING, "system")
"""Keys of /set besides those of sampling."""

SYSTEM_ABOUT = "The system prompt of this chat: the model reads it before everything else. Empty it to do without."


class SettingsCommands:
    """System prompt, presets and settings of the chat: /system, /preset, /settings, /set."""

    def __init__(self, host: Host) -> None:
        self.host = host

    @runs(actions.SETTINGS)
    def settings(self, *words: str) -> None:
        """Show every setting, searched for any words."""
        from ..pickers.settings import SettingsScreen

        self.host.ask(SettingsScreen(self.host, " ".join(words)))

    @runs(actions.SET)
    def set(self, *words: str) -> None:
        """Change sampling or limits, `key=value …`, from the next answer on; without words, show them."""
        texts = pairs(words, "/set temperature=0.7")
        for key in texts:
            if key not in (*SAMPLING, *LIMITS):
                raise UserError(f"There is no setting {key}: {did_you_mean(key, (*SAMPLING, *LIMITS))}")
        if texts:
            names = {f"sampling.{key}": key for key in SAMPLING}
            self.host.live.set({f"sampling.{key}" if key in SAMPLING else key: text for key, text in texts.items()}, names)
        self._tell_sampling()

    def _tell_sampling(self) -> None:
        live = self.host.live
        now = current_values(live.settings)
        parts = [f"{name}={now[name] or None}" for name in (*SAMPLING, "accept")]
        parts += [f"max_tokens={now['max_tokens'] or 'as many as fit'}", f"stop_loops={now['stop_loops']}"]
        if live.layers.origin("sampling.temperature").kind == "makers":
            parts.append("(recommended for this model)")
        self.host.tell("From the next answer on: " + "  ".join(parts))

    @runs(actions.SCHEMA)
    def schema(self, *words: str) -> None:
        """Constrain answers from the next one on; without words, show the constraint."""
        text = words[0].strip() if words else ""
        if text:
            kind, _, rest = text.partition(" ")
            shapes: dict[str, str | bool] = {**dict.fromkeys(CONSTRAINTS, ""), "json_object": text == "json"}
            if kind in ("regex", "grammar") and rest.strip():
                shapes[kind] = rest.strip()
            elif text not in ("json", "off"):
                shapes["schema"] = text
            self.host.live.set(shapes, dict.fromkeys(CONSTRAINTS, "/schema"))
            self.host.changed()
        constraint = self.host.dialogue.options.constraint
        if not (name := constraint_name(constraint)):
            self.host.tell("Answers may be anything. /schema constrains them: FILE, {…}, json, regex PATTERN or grammar FILE.")
        elif text:
            self.host.tell(f"From the next answer on: {name}.")
        else:
            self.host.tell(f"Answers match {name}. /schema off ends it.")

    # System prompts

    @runs(actions.SYSTEM)
    def system(self, *words: str) -> None:
        """Edit the system prompt in a screen, or set it to a text; `""` empties it."""
        if words:
            text = words[0].strip()
            self._set_system("" if text in ('""', "''", "“”") else text)
            return
        from ..pickers.text import TextScreen

        before = self.host.dialogue.transcript.system or ""

        def save(text: str) -> None:
            if text.rstrip() != before:
                self._set_system(text.rstrip())

        self.host.ask(TextScreen("System prompt", before, SYSTEM_ABOUT, self.host.live.keymap, save))

    def _set_system(self, text: str) -> None:
        self.host.live.set({"system": text})
        quote = fit(one_line(text.strip()), 60)
        stop = "" if quote.endswith(tuple(".!?…")) else "."
        self.host.tell(f"The system prompt is now “{quote}”{stop}" if quote else "The system prompt is now empty.")
        self.host.changed()

    # Presets

    @runs(actions.PRESETS)
    def preset(self, *words: str) -> None:
        """Use preset `NAME`, `save NAME`, or `none`; without words, choose one."""
        live = self.host.live
        match words:
            case ():
                self._choose_preset()
            case ("save", *rest):
                self._save_preset(" ".join(rest) or live.layers.preset_name)
            case ("none",):
                live.no_preset()
                self.host.changed()
                self.host.tell("No preset is in use and nothing is set for this chat alone, so the settings apply.")
            case _:
                self._use_preset(" ".join(words))

    def _choose_preset(self) -> None:
        layers = self.host.live.layers
        items = [MenuItem(name, fit(one_line(name), 22), detail=preset_summary(held)) for name, held in layers.presets.items()]
        if not items:
            raise NotPossible("There are no presets yet. /preset save NAME makes one from this chat.")
        self.host.ask(Menu("Presets", items, layers.preset_name, self.host.live.keymap), self._use_preset)

    def _use_preset(self, name: str) -> None:
        self.host.live.preset(name)
        self.host.changed()
        self.host.tell(f"Preset {one_line(name)} is in use: {fit(preset_summary(self.host.live.layers.preset), 100)}")

    def _save_preset(self, name: str) -> None:
        layers = self.host.live.layers
        if not name or name in actions.PRESETS.words:
            raise UserError("/preset save takes a name, other than save and none.")
        if name in layers.presets and name != layers.preset_name:
            raise UserError(f"There is already a preset {one_line(name)}. Choose another name, or use it before you save.")
        self.host.live.save_preset(name)
        self.host.tell(f"Saved as preset {one_line(name)}, in {short_path(layers.read.path)}.")


def current_values(settings: Settings) -> dict[str, str]:
    """List the keys of /set with their values; empty where nothing is set."""
    values = {name: getattr(settings.sampling, name) for name in SAMPLING}
    values |= {name: getattr(settings, name) for name in LIMITS}
    values["stop_loops"] = "on" if settings.stop_loops else "off"
    return {name: "" if value in (None, ()) else str(value) for name, value in values.items()}
