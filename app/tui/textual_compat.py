"""Private names of Textual, imported or used here alone; subclasses override some. A test asserts that they exist."""

from __future__ import annotations

from typing import Any

from textual import _xterm_parser
from textual.app import App
from textual.content import Content
from textual.drivers.linux_driver import LinuxDriver
from textual.keys import _character_to_key
from textual.notifications import Notification
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.style import Style
from textual.visual import RenderOptions
from textual.widget import Widget
from textual.widgets import Input, TextArea

XTermParser = _xterm_parser.XTermParser
key_name = _character_to_key

PRIVATE: dict[type, tuple[str, ...]] = {
    App: ("_display", "_driver", "_filters", "_handle_exception", "_notifications", "_start_widget", "_unnotify"),
    Input: ("_on_key",),
    LinuxDriver: ("_debug", "_disable_mouse_support", "_file", "_loop", "_mouse_pixels", "_writer_thread"),
    ScrollView: ("_vertical_scrollbar",),
    TextArea: ("_bindings", "_on_key", "_on_paste", "_replace_via_keyboard"),
    Widget: ("_get_style",),
    XTermParser: ("_sequence_to_key_events",),
}
"""Class → its private members in use."""


def notices_of(app: App[Any]) -> list[Notification]:
    """List the notices on the screen, the oldest first."""
    return list(app._notifications)


def remove_notice(app: App[Any], notice: Notification, *, refresh: bool = True) -> None:
    app._unnotify(notice, refresh=refresh)


def style_of(widget: Widget, style: str) -> Style:
    """Parse a style with the theme's variables."""
    return widget._get_style(style)


def line_strip(widget: Widget, content: Content, style: Style | None = None) -> Strip:
    """Draw one line as wide as a widget."""
    cells = widget.size.width
    options = RenderOptions(widget._get_style, {})
    strips = content.render_strips(cells, 1, widget.visual_style if style is None else style, options)
    return (strips[0] if strips else Strip([])).crop(0, cells).extend_cell_length(cells, widget.rich_style)
