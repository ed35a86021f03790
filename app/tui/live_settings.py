"""The settings in force, their layers (this chat, a preset, the file) and the immediate effects of a change."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace

from ...engine.options import AnswerOptions
from ...errors import UserError
from ...option import declared_options
from ..chat.dialogue import Dialogue
from ..settings.fields import Settings, Values, checked, is_chat_key
from ..settings.precedence import Layers, layers_of, recommended, save
from ..settings.toml import join, split

InThread = Callable[[Callable[[], None], Callable[[None], None]], None]
"""Calls work in a thread, then a function with its result; a UserError becomes a notice."""


class LiveSettings:
    """The settings in force, and changes of them.

    Args:
        settings: at the start.
        dialogue: applies them to answers.
        in_background: writes to the disk.
        applied: called after each change with the settings before and after it.
    """

    def __init__(
        self,
        settings: Settings,
        dialogue: Dialogue,
        in_background: InThread,
        applied: Callable[[Settings, Settings], None],
    ) -> None:
        layers = layers_of(settings)
        self.settings = replace(settings, layers=layers)
        """Settings in force."""
        self._dialogue = dialogue
        self._in_background = in_background
        self._applied = applied
        self.keymap: dict[str, str] = dict(settings.keymap)
        """Keys in force; changed in place, since screens share it."""
        self._unopened: Values | None = {} if layers.chat else None  # the chat layer before a saved chat was opened
        self._model = dialogue.model
        self._writing = threading.Lock()
        self._pending: list[Values] = []
        dialogue.transcript.system = settings.system or None
        dialogue.loaded = self._use_makers
        self._hand_on()

    @property
    def layers(self) -> Layers:
        """Sources of the settings in force."""
        return layers_of(self.settings)

    def close(self) -> None:
        """Write pending changes."""
        with suppress(UserError):  # too late for a notice
            self._write()

    # For this chat

    def set(self, changes: Values, names: Mapping[str, str] | None = None) -> None:
        """Change settings for this chat.

        Args:
            changes: new values.
            names: key → its name in error messages.

        Raises:
            UserError: a value is invalid; nothing has changed.
        """
        values = {key: checked(key, value, (names or {}).get(key, key)) for key, value in changes.items()}
        layers = self.layers
        self.use(replace(layers, chat={**layers.chat, **values}))
        self._set_system(values)

    def _set_system(self, values: Values) -> None:
        if "system" in values:
            self._dialogue.transcript.system = values["system"] or None

    def unset(self, key: str) -> None:
        """Undo a change for this chat."""
        self.use(replace(self.layers, chat=_without(self.layers.chat, [key])))

    def leave_opened(self) -> None:
        """Restore the settings from before a saved chat was opened, for a new chat."""
        if self._unopened is not None:
            chat, self._unopened = self._unopened, None
            self.use(replace(self.layers, chat=chat))

    def resume(self, settings: Settings) -> None:
        """Use the settings of a saved chat."""
        if self._unopened is None:
            self._unopened = self.layers.chat
        before, self.settings = self.settings, settings
        self._hand_on(before)

    def use(self, layers: Layers) -> None:
        """Use other layers. Every change takes effect at once, except for load options, which wait for the next load."""
        before, after = self.settings, layers.settings()
        self.settings = after
        self._hand_on(before)
        self._switch(before, after)
        if before.keymap != after.keymap:
            self.keymap.clear()
            self.keymap.update(after.keymap)
        self._applied(before, after)

    def _hand_on(self, before: Settings | None = None) -> None:
        """Update the dialogue's options for the next answer."""
        settings, dialogue = self.settings, self._dialogue
        dialogue.options = settings
        dialogue.recommended = self.layers.origin("sampling.temperature").kind == "makers"
        # An opened chat keeps its system prompt until the setting changes.
        if before is not None and settings.system != before.system:
            dialogue.transcript.system = settings.system or None

    def _switch(self, before: Settings, after: Settings) -> None:
        """Switch the dialogue's method and its settings where they changed."""
        dialogue = self._dialogue
        for name in {*before.methods, *after.methods}:
            old, new = before.methods.get(name, {}), after.methods.get(name, {})
            if old == new:
                continue
            table = {**dialogue.settings.get(name, {}), **{key: value for key, value in new.items() if old.get(key) != value}}
            dialogue.settings[name] = {key: value for key, value in table.items() if key in new or key not in old}
            if name == (dialogue.switching or dialogue.method) and before.method == after.method:
                dialogue.switch(name)
        if before.method != after.method and (after.method is None or after.method in dialogue.methods):
            dialogue.switch(after.method)
            if dialogue.info:
                dialogue.settle_method()

    def follow_model(self) -> None:
        """Apply a model's own defaults after a request to load it."""
        model = self._dialogue.model
        if model != self._model:
            self._model = model
            if self.layers.model != model:  # a resumed chat brings its model's settings
                self.use(replace(self.layers, model=model))

    def _use_makers(self) -> None:
        """Apply the recommendations of the loaded model's makers."""
        makers = recommended(self._dialogue.info)
        if makers != self.layers.makers:
            self.use(replace(self.layers, makers=makers))

    # Presets

    def preset(self, name: str) -> None:
        """Use a preset in this chat, over the chat's own changes.

        Raises:
            UserError: there is no such preset.
        """
        layers = self.layers.with_preset(name)
        values = layers.preset
        self.use(replace(layers, chat=_without(layers.chat, values)))
        self._set_system(values)
        if (method := values.get("method")) is not None and method in self._dialogue.methods:
            # Even if the settings had it before: another one may have been chosen since.
            self._dialogue.switch(str(method))

    def save_preset(self, name: str) -> None:
        """Save this chat's settings as a preset, over one of that name, and use it."""
        values = self.preset_values()
        removed = dict.fromkeys(join(("presets", name, *split(key))) for key in self.layers.presets.get(name, {}))
        self.keep(removed | {join(("presets", name, *split(key))): value for key, value in values.items()})
        self.use(replace(self.layers, preset=values, preset_name=name, chat=_without(self.layers.chat, values)))

    def no_preset(self) -> None:
        """Use neither a preset nor changes for this chat."""
        self.use(replace(self.layers, preset={}, preset_name="", chat={}))
        self._dialogue.transcript.system = self.settings.system

    def preset_values(self) -> dict[str, object]:
        """Collect the values that differ from their defaults, with the method in force and its settings."""
        dialogue, settings = self._dialogue, self.settings
        chosen = replace(self.layers, makers={}).values()
        values = {key: value for key, value in chosen.items() if is_chat_key(split(key)) and split(key)[0] != "methods"}
        values |= {"method": dialogue.switching or dialogue.method}
        for key, value in dialogue.settings.get(values["method"], {}).items():
            whole = join(("methods", values["method"], key))
            values[whole] = checked(whole, value, whole)
        values.pop("system", None)
        if dialogue.transcript.system:
            values["system"] = dialogue.transcript.system
        default = Settings()
        for key in declared_options(AnswerOptions):
            value = getattr(settings, key)
            if value != getattr(default, key):
                values[key] = value
            else:
                values.pop(key, None)
        return values

    # The file

    def keep(self, changes: Values) -> None:
        """Change settings and write them to the settings file, in a thread.

        Args:
            changes: new values; None removes one from the file.

        Raises:
            UserError: a value is invalid; nothing has changed.
        """
        values = {key: None if value is None else checked(key, value, key) for key, value in changes.items()}
        layers = self.layers
        file_values = {key: value for key, value in {**layers.read.values, **values}.items() if value is not None}
        # Until the next start the change outranks all other layers.
        changed = replace(
            layers,
            read=replace(layers.read, values=file_values),
            command_line=_without(layers.command_line, values),
            preset=_without(layers.preset, values),
            chat=_without(layers.chat, values),
        )
        self.use(changed)
        self._pending.append(values)
        self._in_background(self._write, lambda _: None)

    def _write(self) -> None:
        """Write the pending changes in order.

        Raises:
            UserError: the file cannot be written.
        """
        with self._writing:
            changes: dict[str, object] = {}
            while self._pending:
                changes.update(self._pending.pop(0))
            try:
                if changes:
                    save(changes, self.layers.read.path)
            except UserError as error:
                raise UserError(f"Not saved for the next chat: {error}") from None


def _without(values: Values, keys: Collection[str]) -> Values:
    return {key: value for key, value in values.items() if key not in keys}
