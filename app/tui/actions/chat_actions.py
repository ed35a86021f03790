"""Keys of the chat's screen that ask something of the app, and do nothing to the screen itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from textual.screen import Screen

if TYPE_CHECKING:
    from ..app import SpecchatApp


class ChatActions(Screen[None]):
    """What those keys do."""

    @property
    def chat(self) -> SpecchatApp:
        """The app, by its own type."""
        return cast("SpecchatApp", self.app)

    def action_method_menu(self) -> None:
        """Choose a method."""
        self.chat.choose_method()

    def action_theme_menu(self) -> None:
        """Choose a theme."""
        self.chat.choose_theme()

    def action_race(self) -> None:
        """Choose who races."""
        self.chat.racing.attempt()

    def action_help(self) -> None:
        """Show the help."""
        self.chat.show_help()

    def action_copy_answer(self) -> None:
        """Copy the last answer, or what is marked."""
        self.chat.copy_answer()

    def action_copy_code(self) -> None:
        """Copy a block of code."""
        self.chat.copying.attempt("code")

    def action_editor(self) -> None:
        """Write the draft in an editor."""
        self.chat.editing.start()

    def action_edit(self) -> None:
        """Write the last or the marked message anew."""
        self.chat.varying.attempt("edit")

    def action_retry(self) -> None:
        """Answer with the next method."""
        self.chat.varying.attempt("retry", [])

    def action_undo(self) -> None:
        """Take back the last message."""
        self.chat.varying.attempt("undo")

    def action_turn(self, step: int) -> None:
        """Show another variant."""
        self.chat.varying.attempt("turn", step)

    def action_export(self) -> None:
        """Choose a format to save the chat in."""
        self.chat.saving.attempt()

    def action_models(self) -> None:
        """The list of models."""
        self.chat.models.browse()

    def action_chats(self) -> None:
        """The list of chats."""
        self.chat.keeping.browse()

    def action_system(self) -> None:
        """Write the system prompt."""
        self.chat.prompting.write_system()

    def action_presets(self) -> None:
        """The list of presets."""
        self.chat.prompting.browse()

    def action_settings(self) -> None:
        """Every setting."""
        self.chat.prompting.settings()

    def action_new_chat(self) -> None:
        """Start afresh, or go back."""
        self.chat.new_chat()
