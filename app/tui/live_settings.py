"""The settings in force: what is set for this chat, presets, the file on the disk, and what a change does at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ...engine.options import AnswerOptions
from ...errors import UserError
from ...option import declared_options
from ..chat.dialogue import Dialogue
from ..settings.checks import checked
from ..settings.fields import Settings
from ..settings.file import ReadSettings, read, save
from ..settings.key_path import join, split
from ..settings.precedence import Layers, chat_part, layers_of, recommended

InThread = Callable[[Callable[[], ReadSettings | None], Callable[[ReadSettings | None], None]], None]
"""Does work in a thread, then something here; a UserError of it is told."""


class LiveSettings:
    """The settings in force, and changes of them.

    Args:
        settings: to begin with.
        dialogue: what they are for.
        beside: does what waits for the disk.
        applied: told what the settings were and what they are, whenever others are in force.
    """

    def __init__(
        self,
        settings: Settings,
        dialogue: Dialogue,
        beside: InThread,
        applied: Callable[[Settings, Settings], None],
    ) -> None:
        layers = layers_of(settings)
        self.settings = replace(settings, layers=layers)
        """The settings in force."""
        self._dialogue, self._beside, self._applied = dialogue, beside, applied
        self.keymap: dict[str, str] = dict(settings.keymap)
        """The keys in force. Screens hold it too, so it is changed in place."""
        self.undo: list[dict[str, Any]] = []
        """What takes changes of the file back, the last one at the end."""
        self._home: Mapping[str, Any] | None = {} if layers.chat else None  # what was set before a saved chat was opened
        self._model = dialogue.model
        self._methods: dict[str, str | None] = {}  # by model: the method that had been chosen when it was left
        self._writing = threading.Lock()
        self._pending: list[dict[str, Any]] = []
        dialogue.transcript.system = settings.system or None
        dialogue.loaded = self.loaded
        self._hand_on()

    @property
    def layers(self) -> Layers:
        """Where the settings in force come from."""
        return layers_of(self.settings)

    def close(self) -> None:
        """Write what waits."""
        with suppress(UserError):  # nobody is there to be told
            self._write()

    # For this chat

    def set(self, changes: Mapping[str, Any], names: Mapping[str, str] | None = None) -> None:
        """Set something for this chat.

        Args:
            changes: dotted key → value.
            names: what to call a key in a message.

        Raises:
            UserError: a value is not as it must be; nothing has changed.
        """
        values = {key: checked(key, value, (names or {}).get(key, key)) for key, value in changes.items()}
        layers = self.layers
        self.use(replace(layers, chat={**layers.chat, **values}))
        if "system" in values:
            self._dialogue.transcript.system = values["system"] or None

    def unset(self, key: str) -> None:
        """Take back what was set for this chat."""
        self.use(replace(self.layers, chat=_without(self.layers.chat, {key: None})))

    def opening(self) -> None:
        """A saved chat is opened, with what it has of its own in the place of what was set."""
        if self._home is None:
            self._home = self.layers.chat

    def fresh(self) -> None:
        """A new chat is begun: what belongs to a chat that was opened goes with that."""
        if self._home is not None:
            home, self._home = self._home, None
            self.use(replace(self.layers, chat=home))

    def resume(self, settings: Settings) -> None:
        """Put in force what a saved chat was written with."""
        self.opening()
        before, self.settings = self.settings, settings
        self._hand_on(before)

    def use(self, layers: Layers) -> None:
        """Put these layers in force; what can change during a chat changes at once."""
        # What was loaded stays loaded: the model and its options count when the next one is.
        before, after = self.settings, layers.settings()
        self.settings = after
        self._hand_on(before)
        self._switch(before, after)
        if before.keymap != after.keymap:
            self.keymap.clear()
            self.keymap.update(after.keymap)
        self._applied(before, after)

    def _hand_on(self, before: Settings | None = None) -> None:
        """Give the dialogue what counts from the next answer on."""
        settings, dialogue = self.settings, self._dialogue
        dialogue.options = settings
        dialogue.recommended = self.layers.origin("sampling.temperature").kind == "makers"
        # A chat that was opened has its own until another one is set.
        if before is not None and settings.system != before.system:
            dialogue.transcript.system = settings.system or None

    def _switch(self, before: Settings, after: Settings) -> None:
        """Switch the method, or its settings, to what changed of them."""
        dialogue = self._dialogue
        for name in {*before.methods, *after.methods}:
            old, new = before.methods.get(name, {}), after.methods.get(name, {})
            if old == new:
                continue
            table = dict(dialogue.settings.get(name, {}))
            for key in old.keys() - new.keys():
                table.pop(key, None)
            table.update({key: value for key, value in new.items() if old.get(key) != value})
            dialogue.settings[name] = table
            if name == (dialogue.switching or dialogue.method) and before.method == after.method:
                dialogue.switch(name)
        if before.method != after.method and (after.method is None or after.method in dialogue.methods):
            dialogue.switch(after.method)
            if dialogue.info:
                dialogue.settle_method()

    def look(self) -> None:
        """Give a model that has been asked for its own defaults."""
        model = self._dialogue.model
        if model == self._model:
            return
        dialogue = self._dialogue
        self._methods[self._model] = (dialogue.switching or dialogue.method) if dialogue.chosen else None
        came_back = bool(dialogue.info) and model in self._methods  # the other one could not be loaded
        self._model = model
        if self.layers.model != model:  # a chat that is gone on with brings its model's with it
            self.use(replace(self.layers, model=model))
        if came_back:
            dialogue.switch(self._methods[model])

    def loaded(self) -> None:
        """Put in force what the makers of the loaded model recommend, where nothing else was chosen."""
        makers = recommended(self._dialogue.info)
        if makers != self.layers.makers:
            self.use(replace(self.layers, makers=makers))

    # Presets

    def preset(self, name: str) -> None:
        """Use a preset in this chat. What the chat had set of it gives way.

        Raises:
            UserError: there is none of this name.
        """
        layers = self.layers.with_preset(name)
        values = layers.preset
        self.use(replace(layers, chat={key: value for key, value in layers.chat.items() if key not in values}))
        if "system" in values:
            self._dialogue.transcript.system = values["system"] or None
        if (method := values.get("method")) is not None and method in self._dialogue.methods:
            # Also where the settings had it before: another one may have been chosen since.
            self._dialogue.switch(str(method))

    def save_preset(self, name: str) -> None:
        """Make a preset of this chat, in place of one of that name, and use it."""
        values = self.current()
        before = {join(("presets", name, *split(key))): None for key in self.layers.presets.get(name, {})}
        self.keep(before | {join(("presets", name, *split(key))): value for key, value in values.items()})
        chat = {key: value for key, value in self.layers.chat.items() if key not in values}
        self.use(replace(self.layers, preset=values, preset_name=name, chat=chat))

    def no_preset(self) -> None:
        """Go back to the settings without a preset and without anything that was set in this chat."""
        self.use(replace(self.layers, preset={}, preset_name="", chat={}))
        self._dialogue.transcript.system = self.settings.system

    def current(self) -> dict[str, Any]:
        """What a preset of this chat holds: what is not at its default, with the method in force and its settings."""
        dialogue, settings = self._dialogue, self.settings
        chosen = replace(self.layers, makers={}).values()
        values = chat_part({key: value for key, value in chosen.items() if split(key)[0] not in ("methods",)})
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

    def keep(self, changes: Mapping[str, Any], *, undoable: bool = False) -> None:
        """Put something in force and write it into the settings file, beside the drawing.

        Args:
            changes: dotted key → value; None takes it out of the file.
            undoable: keep what takes it back.

        Raises:
            UserError: a value is not as it must be; nothing has changed.
        """
        values = {key: None if value is None else checked(key, value, key) for key, value in changes.items()}
        layers = self.layers
        if undoable:
            self.undo.append({key: layers.read.values.get(key) for key in values})
        kept = {key: value for key, value in {**layers.read.values, **values}.items() if value is not None}
        # The latest word counts until the next start, whatever went before the file.
        weaker = replace(
            layers,
            read=replace(layers.read, values=kept, environment=_without(layers.read.environment, values)),
            command_line=_without(layers.command_line, values),
            preset=_without(layers.preset, values),
            chat=_without(layers.chat, values),
        )
        self.use(weaker)
        self._pending.append(values)
        self._beside(self._write, self._take)

    def _write(self) -> ReadSettings | None:
        """Write what waits, in the order in which it came; the file then, None if nothing waited.

        Raises:
            UserError: the file cannot be written.
        """
        with self._writing:
            changes: dict[str, Any] = {}
            while self._pending:
                changes.update(self._pending.pop(0))
            if not changes:
                return None
            try:
                save(changes, self.layers.read.path)
            except UserError as error:
                raise UserError(f"Not saved for the next chat: {error}") from None
            return read()

    def _take(self, found: ReadSettings | None) -> None:
        """Take in a file that was written, with its lines as they are now."""
        if found is None or self._pending or self._writing.locked():  # what is being written is newer
            return
        layers = self.layers
        # What was set aside of the environment by a later word stays aside.
        environment = {key: value for key, value in found.environment.items() if key in layers.read.environment}
        self.use(replace(layers, read=replace(found, environment=environment)))


def _without(values: Mapping[str, Any], keys: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in keys}
