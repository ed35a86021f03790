"""The actions of the chat, one row each. Keys, slash commands, the help and docs/keys.md are generated from them; the settings'
`[keymap]` remaps keys by their ids.

The function of a row is in `app/tui`, below `@runs(ROW)` (`app/tui/actions/dispatch.py`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple


class Action(NamedTuple):
    """An action of the chat."""

    id: str
    what: str
    """A sentence on its effect."""
    keys: str = ""
    """Defaults, separated by commas."""
    short: str = ""
    """Its name in a word or two: in the bar at the bottom, and among the letters of the leader key."""
    slash: str = ""
    """The command without the slash, and its arguments as the help shows them."""
    takes: Literal["words", "text", "prompt"] = "words"
    """Form of the arguments: words as a shell reads them, one text, or words and, behind a colon, a prompt."""
    words: Mapping[str, str] = {}
    """Possible first words, each with its effect."""
    letter: str = ""
    """Default keys after the leader key, where not the letters of its alt keys and the numbers of its F keys."""
    repeat: str = ""
    """Word that groups actions whose keys repeat after one press of the leader key."""

    @property
    def letters(self) -> str:
        """Default keys after the leader key, separated by commas."""
        return self.letter or ",".join(alt or number for alt, number in re.findall(r"alt\+([^,]+)|\bf(\d)", self.keys))

    @property
    def command(self) -> str:
        """Name of the slash command; empty if there is none."""
        return self.slash.partition(" ")[0]

    @property
    def arguments(self) -> str:
        """Arguments of the slash command, as the help shows them."""
        return self.slash.partition(" ")[2]


CANCEL = Action("cancel", "Stop the answer and keep what is there", "escape", "stop")
NEXT_METHOD = Action(
    "next_method", "Next decoding method, even in the middle of an answer", "ctrl+n", "next method", letter="n"
)
METHOD_MENU = Action(
    "method_menu",
    "Choose a decoding method by digit or letter, even in the middle of an answer",
    "f2",
    "methods",
    slash="method NAME key=value …",
)
MODEL = Action("model", "Load another model: builtin, a folder, or owner/name on the Hub", slash="model NAME")
MODELS = Action("models", "Models on this machine and on the Hub: load or download one", "alt+m", "models", slash="models TEXT")
THEME_MENU = Action("theme_menu", "Choose a colour theme, with a live preview", "f3,ctrl+t", "theme", slash="theme NAME")
COLOURS = Action(
    "colours",
    "Colour passes by their tokens, or not at all",
    "f6",
    "colours",
    slash="colours length|off",
    words={"length": "by the tokens of a pass", "off": "not at all"},
)
MARKDOWN = Action(
    "markdown", "Show finished answers as Markdown, or coloured by pass again", "ctrl+g", "Markdown", slash="markdown"
)
THINK = Action(
    "think",
    "How the model thinks before it answers: the next of its ways, or the one you name",
    "alt+x",
    "thinking",
    slash="think WORD",
)
THOUGHTS = Action(
    "thoughts",
    "Open or fold the thought of the last answer, or of the marked one; with a word, all thoughts",
    "alt+v",
    "thought",
    slash="thoughts open|folded|hidden",
    words={"open": "show them whole", "folded": "a line once the answer begins", "hidden": "not at all"},
)
PANELS = Action(
    "panels",
    "Side panel: figures, token tree, how the method works, what held the answer back, closed",
    "f4",
    "panel",
    slash="panel numbers|tree|method|speed|off",
    words={
        "numbers": "speed, tokens a pass, acceptance",
        "tree": "the token tree of each pass",
        "method": "how the current method works",
        "speed": "why the answer was no faster",
        "off": "close it",
    },
)
WHY = Action(
    "why",
    "Why the answer was no faster; once more: make the change that would help most",
    "alt+a",
    "why no faster",
    slash="why",
)
INSPECT = Action("inspect", "Inspect a pass: why it ended where it did", "f7,ctrl+r", "inspect")
RACE = Action(
    "race",
    "Race two to four methods or models side by side on one prompt",
    "f5",
    "race",
    slash="race METHOD METHOD@MODEL … : PROMPT",
    takes="prompt",
)
PAUSE = Action("pause", "Pause or continue the answer", "f8", "pause", slash="pause")
STEP = Action("step", "Take one pass of the answer, or N, then pause", "f9", "one pass", slash="pass N", repeat="step")
PACE = Action(
    "pace",
    "Slow answers and races to N passes a second; alone, the next pace, and full speed again",
    "f10,alt+c",
    "pace",
    slash="pace N",
    letter="c",
)
DRAFT_SHORTER = Action(
    "draft_shorter",
    "Shorter drafts, even in the middle of an answer",
    "ctrl+down",
    "shorter drafts",
    letter="minus",
    repeat="draft",
)
DRAFT_LONGER = Action(
    "draft_longer",
    "Longer drafts, even in the middle of an answer",
    "ctrl+up",
    "longer drafts",
    letter="plus,equals_sign",
    repeat="draft",
)
TOUR = Action("tour", "Take the tour: 30 seconds that show one token a pass, many tokens a pass, and a race", slash="tour")
HELP = Action("help", "Help: every key and command", "f1,ctrl+p", "help", slash="help", letter="question_mark,1")
LEADER = Action("leader", "Leader key: followed by a letter, it stands in for every alt and F key", "ctrl+o", "more keys")
COPY_ANSWER = Action(
    "copy_answer",
    "Copy the last answer, or the marked message",
    "ctrl+y",
    "copy",
    slash="copy code",
    words={"code": "a block of code: the only one, or choose"},
)
COPY_CODE = Action("copy_code", "Copy a block of code; choose if there are several", "alt+y", "copy code")
MESSAGE_BEFORE = Action("message_before", "Mark the previous message", "alt+up", "prev message", repeat="message")
MESSAGE_AFTER = Action(
    "message_after",
    "Mark the next message; after the last one, return to the end",
    "alt+down",
    "next message",
    repeat="message",
)
EDIT = Action(
    "edit", "Edit your last message, or the marked one; the old chat stays as a variant", "alt+w", "edit", slash="edit"
)
RETRY = Action(
    "retry",
    "Answer again with the same method, and a new seed where there is a temperature; the first answer stays",
    "alt+r",
    "retry",
    slash="retry",
)
COMPARE = Action(
    "compare",
    "Answer again with the next method, or the one you name; a line compares the answers",
    "alt+q",
    "compare",
    slash="compare METHOD key=value …",
)
GO_ON = Action("go_on", "Go on from where the text ends, with a base model", "alt+g", "go on", slash="more")
VARIANT_BEFORE = Action(
    "variant_before",
    "Previous variant of an answer or a message: ‹ 1/2 ›",
    "alt+left,alt+comma",
    "prev variant",
    repeat="variant",
)
VARIANT_AFTER = Action("variant_after", "Next variant", "alt+right,alt+full_stop", "next variant", repeat="variant")
UNDO = Action("undo", "Take back your last message and its answer; they stay as a variant", "alt+u", "undo", slash="undo")
REDO = Action("redo", "Redo in the input box (ctrl+z undoes)", "alt+z", "redo")
EDITOR = Action("editor", "Write your message in your editor ($VISUAL, $EDITOR)", "alt+e", "editor", slash="editor")
FIND = Action(
    "find", "Find text in this chat, from its end; again: the match before", "ctrl+f", "find", slash="find TEXT", takes="text"
)
EXPORT = Action(
    "export",
    "Save the chat as a web page, Markdown or JSON",
    "alt+s",
    "export",
    slash="export html|md|json|FILE [thoughts]",
    words={"html": "a web page", "md": "Markdown", "json": "to open again with /open"},
)
OPEN = Action("open", "Open a chat saved as JSON; alone, return to the previous chat", slash="open FILE.json")
CHATS = Action("chats", "Your chats: search, open, rename, delete", "alt+h", "chats", slash="chats TEXT")
RENAME = Action("rename", "Give this chat a title", slash="rename TITLE")
SYSTEM = Action(
    "system",
    'The system prompt of this chat: edit it, or set it to TEXT; "" clears it',
    "alt+i",
    "system prompt",
    slash="system TEXT",
    takes="text",
)
PRESETS = Action(
    "presets",
    "Presets: system prompt, method, sampling and limits under a name",
    "alt+p",
    "presets",
    slash="preset NAME|save NAME|none",
    words={"save": "what this chat is set to, under a name", "none": "use none in this chat"},
)
SETTINGS = Action(
    "settings", "Every setting with its value, default and source: change them", "alt+o", "settings", slash="settings TEXT"
)
SET = Action(
    "set",
    "Sampling and limits of this chat: temperature, top_k, top_p, seed, accept, max_tokens, …",
    slash="set temperature=0.7 …",
)
SCHEMA = Action(
    "schema",
    "What answers must match: a JSON schema as a file or as itself, any JSON, a regex or a grammar; alone, tell it",
    slash="schema FILE|{…}|json|regex PATTERN|grammar FILE|off",
    takes="text",
    words={
        "json": "any JSON object",
        "regex": "a regex, from start to end",
        "grammar": "a grammar: Lark or GBNF",
        "off": "anything",
    },
)
NEW_CHAT = Action("new_chat", "Start a new chat; this one stays in your chats", "ctrl+l", "new chat", slash="new", letter="l")
SCROLL_UP = Action("scroll_up", "Scroll the transcript up by a page", "pageup", "page up", letter="k", repeat="scroll")
SCROLL_DOWN = Action(
    "scroll_down", "Scroll the transcript down by a page", "pagedown", "page down", letter="j", repeat="scroll"
)
SCROLL_TOP = Action("scroll_top", "Scroll to the beginning", "ctrl+home", "to the top", letter="t")
SCROLL_END = Action("scroll_end", "Scroll to the end and follow new text", "ctrl+end", "to the end", letter="b")
INTERRUPT = Action("interrupt", "Copy the selection, else stop the answer, else (twice) quit", "ctrl+c")
QUIT = Action("quit", "Quit", "ctrl+q", "quit", slash="quit")

ACTIONS = tuple(row for row in list(globals().values()) if isinstance(row, Action))
"""The rows above, in their order."""

BY_ID = {row.id: row for row in ACTIONS}
