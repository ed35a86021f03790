"""Everything that can be done in the chat, one row each. Keys, slash commands, what completes them, the help and
docs/keys.md are made of these rows; the settings' `[keymap]` remaps by their ids.

A new action is a row here and the function that its `run` names. `specchat.app.tui.actions.table` reads the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple


class Action(NamedTuple):
    """One thing that can be done."""

    id: str
    run: str
    """The function, as it is found from the app: `racing.command`, `varying.turn(-1)`. It takes a command's words."""
    what: str
    """In one sentence."""
    keys: str = ""
    """Defaults, separated by commas."""
    short: str = ""
    """Its name in a word or two: in the bar at the bottom, and among the letters of the leader key."""
    slash: str = ""
    """The command without the slash, and the arguments that it may have, as they are shown."""
    takes: Literal["words", "text", "prompt"] = "words"
    """What comes behind the command: words as a shell reads them, one text, or words and, behind a colon, a prompt."""
    words: Mapping[str, str] = {}
    """Words that may come first, each with what it does."""
    complete: str = ""
    """What else may come: a function of `specchat.app.tui.actions.complete`."""
    each: str = ""
    """The help lists what may come first one by one, each after this."""
    letter: str = ""
    """Default keys after the leader key, separated by commas: the letter of its alt key, the number of its F key."""
    repeat: bool = False
    """After the leader key it may be pressed again and again."""

    @property
    def command(self) -> str:
        """Name of the slash command; empty if there is none."""
        return self.slash.partition(" ")[0]

    @property
    def arguments(self) -> str:
        """What may follow the slash command, as it is shown."""
        return self.slash.partition(" ")[2]


ACTIONS = (
    Action("cancel", "chat_screen.action_cancel", "Stop the answer and keep what is there", "escape", "stop"),
    Action(
        "next_method",
        "switching.next_method",
        "Next decoding method, even in the middle of an answer",
        keys="ctrl+n",
        short="next method",
        letter="n",
    ),
    Action(
        "method_menu",
        "switching.method",
        "Choose a decoding method by digit or letter, even in the middle of an answer",
        keys="f2",
        short="methods",
        slash="method NAME key=value …",
        complete="method",
        each="Method:",
        letter="2",
    ),
    Action(
        "model",
        "models.command",
        "Load another model: builtin, a folder, or owner/name on the Hub",
        slash="model NAME",
        complete="model",
    ),
    Action(
        "models",
        "models.browse",
        "Models on this machine and on the Hub: load or download one",
        keys="alt+m",
        slash="models TEXT",
        complete="model",
        short="models",
        letter="m",
    ),
    Action(
        "theme_menu",
        "switching.theme",
        "Choose a colour theme, with a live preview",
        keys="f3,ctrl+t",
        short="theme",
        slash="theme NAME",
        complete="theme",
        each="Theme:",
        letter="3",
    ),
    Action(
        "colours",
        "switching.colours",
        "How runs are coloured: by tokens per pass, in turn, with lines, or not at all",
        keys="f6",
        short="colours",
        slash="colours length|cycle|underline|off",
        words={
            "length": "by tokens per pass",
            "cycle": "hues in turn",
            "underline": "lines instead of colours",
            "off": "not at all",
        },
        each="Colours:",
        letter="6",
    ),
    Action(
        "markdown",
        "chat_screen.action_markdown",
        "Show finished answers as Markdown, or as runs again",
        keys="ctrl+g",
        slash="markdown",
        short="Markdown",
    ),
    Action(
        "panels",
        "chat_screen.action_panel",
        "Side panel: figures, token tree, how the method works, closed",
        keys="f4",
        short="panel",
        slash="panel numbers|tree|method|off",
        words={
            "numbers": "speed, run lengths, acceptance",
            "tree": "the token tree of each pass",
            "method": "how the current method works",
            "off": "close it",
        },
        each="Side panel:",
        letter="4",
    ),
    Action(
        "inspect",
        "chat_screen.action_inspect",
        "Inspect a run: why it ended where it did",
        keys="f7,ctrl+r",
        short="why",
        letter="7",
    ),
    Action(
        "race",
        "racing.command",
        "Race two to four methods or models side by side on one prompt",
        keys="f5",
        short="race",
        slash="race METHOD METHOD@MODEL … : PROMPT",
        takes="prompt",
        complete="race",
        letter="5",
    ),
    Action("races", "racing.kept.command", "Show a race of this chat again", slash="races N"),
    Action(
        "pause",
        "chat_screen.action_pause",
        "Pause or continue the answer; without one, the next starts paused",
        keys="f8",
        short="pause",
        slash="pause",
        letter="8",
    ),
    Action(
        "step",
        "chat_screen.action_step",
        "Take one step of the answer, or N, then pause",
        keys="f9",
        short="step",
        slash="step N",
        letter="9",
        repeat=True,
    ),
    Action(
        "draft_shorter",
        "chat_screen.action_draft_length(-1)",
        "Shorter drafts, even in the middle of an answer",
        keys="ctrl+down,alt+minus",
        short="shorter drafts",
        letter="minus",
        repeat=True,
    ),
    Action(
        "draft_longer",
        "chat_screen.action_draft_length(1)",
        "Longer drafts, even in the middle of an answer",
        keys="ctrl+up,alt+equals_sign",
        short="longer drafts",
        letter="plus,equals_sign",
        repeat=True,
    ),
    Action(
        "tour",
        "touring.start",
        "Take the tour: 30 seconds that show one token a pass, many tokens a pass, and a race",
        slash="tour",
    ),
    Action(
        "help",
        "show_help",
        "Help: every key and command, and what each method does",
        "f1,ctrl+p",
        "help",
        "help",
        letter="question_mark,1",
    ),
    Action(
        "leader", "show_leader", "Leader key: followed by a letter, it stands in for every alt and F key", "ctrl+o", "more keys"
    ),
    Action(
        "copy_answer",
        "copying.command",
        "Copy the last answer, or the marked message or run",
        keys="ctrl+y",
        short="copy",
        slash="copy code [N]|run|message|chat",
        words={
            "answer": "the last answer, or the marked one",
            "code": "a block of code: the only one, or choose; /copy code 2 for the second",
            "message": "your last message, or the marked one",
            "run": "the inspected run",
            "chat": "the whole chat, as Markdown",
        },
    ),
    Action(
        "copy_code",
        "copying.code",
        "Copy a block of code; choose if there are several",
        "alt+y",
        short="copy code",
        letter="y",
    ),
    Action(
        "message_before",
        "chat_screen.action_jump(-1)",
        "Mark the previous message",
        "alt+up",
        short="prev message",
        letter="up",
        repeat=True,
    ),
    Action(
        "message_after",
        "chat_screen.action_jump(1)",
        "Mark the next message; after the last one, return to the end",
        "alt+down",
        short="next message",
        letter="down",
        repeat=True,
    ),
    Action(
        "edit",
        "rewriting.command",
        "Edit your last message, the marked one, or message N; the old chat stays as a variant",
        keys="alt+w",
        slash="edit N",
        short="edit",
        letter="w",
    ),
    Action(
        "retry",
        "varying.retry",
        "Answer again with the next method, or the one you name; the first answer stays",
        keys="alt+r",
        slash="retry METHOD key=value …",
        complete="method",
        short="retry",
        letter="r",
    ),
    Action(
        "regenerate",
        "varying.regenerate",
        "Answer again with the same settings and seed, or with a new seed",
        slash="regenerate new|seed=N",
        words={"new": "with a new seed", "seed=": "with this seed"},
    ),
    Action(
        "variant_before",
        "varying.turn(-1)",
        "Previous variant of an answer or a message: ‹ 1/2 ›",
        keys="alt+left,alt+comma",
        short="prev variant",
        letter="left,comma",
        repeat=True,
    ),
    Action(
        "variant_after",
        "varying.turn(1)",
        "Next variant",
        keys="alt+right,alt+full_stop",
        short="next variant",
        letter="right,full_stop",
        repeat=True,
    ),
    Action(
        "undo",
        "varying.undo",
        "Take back your last message and its answer; they stay as a variant",
        keys="alt+u",
        slash="undo",
        short="undo",
        letter="u",
    ),
    Action("redo", "box.action_redo", "Redo in the input box (ctrl+z undoes)", keys="alt+z", short="redo", letter="z"),
    Action(
        "editor",
        "editing.start",
        "Write your message in your editor ($VISUAL, $EDITOR)",
        keys="alt+e",
        slash="editor",
        short="editor",
        letter="e",
    ),
    Action(
        "prompt_search",
        "chat_screen.recalling.search",
        "Search your earlier messages",
        keys="ctrl+f",
        short="your messages",
    ),
    Action(
        "export",
        "saving.command",
        "Save the chat as a web page, a picture, Markdown or JSON; ! overwrites",
        keys="alt+s",
        slash="export html|svg|md|json|FILE [!]",
        words={"html": "a web page", "svg": "a picture", "md": "Markdown", "json": "to open again with /open"},
        complete="export",
        each="Export the chat as",
        short="export",
        letter="s",
    ),
    Action(
        "open",
        "saving.open",
        "Open a chat or a race saved as JSON; alone, return to the previous chat",
        slash="open FILE.json",
        complete="saved",
    ),
    Action(
        "chats",
        "keeping.browse",
        "Your chats: search, open, rename, delete",
        keys="alt+h",
        slash="chats TEXT",
        complete="chat",
        short="chats",
        letter="h",
    ),
    Action("rename", "keeping.rename", "Give this chat a title", slash="rename TITLE"),
    Action("branch", "keeping.branch", "Continue in a new chat that shares this one's beginning", slash="branch TITLE"),
    Action(
        "system",
        "prompting.system",
        'The system prompt of this chat: edit it, or set it to TEXT; "" clears it',
        keys="alt+i",
        slash="system TEXT",
        takes="text",
        short="system prompt",
        letter="i",
    ),
    Action(
        "presets",
        "prompting.preset",
        "Presets: system prompt, method, sampling and limits under a name",
        keys="alt+p",
        slash="preset NAME|save NAME|edit|delete|undo|none",
        complete="preset",
        short="presets",
        letter="p",
    ),
    Action(
        "settings",
        "prompting.settings",
        "Every setting with its value, default and source: change them, remap keys",
        keys="alt+o",
        slash="settings TEXT",
        short="settings",
        letter="o",
    ),
    Action(
        "set",
        "prompting.set",
        "Sampling and limits of this chat: temperature, top_k, top_p, seed, accept, max_tokens, …",
        slash="set temperature=0.7 …",
        complete="sampling",
    ),
    Action(
        "new_chat",
        "new_chat",
        "Start a new chat; this one stays in your chats",
        keys="ctrl+l",
        slash="new",
        short="new chat",
        letter="l",
    ),
    Action(
        "scroll_up",
        "chat_screen.action_scroll_page(-1)",
        "Scroll the transcript up by a page",
        "pageup",
        short="page up",
        letter="k",
        repeat=True,
    ),
    Action(
        "scroll_down",
        "chat_screen.action_scroll_page(1)",
        "Scroll the transcript down by a page",
        "pagedown",
        short="page down",
        letter="j",
        repeat=True,
    ),
    Action(
        "scroll_top",
        "chat_screen.action_scroll_top",
        "Scroll to the beginning",
        "ctrl+home",
        short="to the top",
        letter="t",
    ),
    Action(
        "scroll_end",
        "chat_screen.action_scroll_end",
        "Scroll to the end and follow new text",
        "ctrl+end",
        short="to the end",
        letter="b",
    ),
    Action(
        "interrupt", "chat_screen.action_interrupt", "Copy the selection, else stop the answer, else (twice) quit", "ctrl+c"
    ),
    Action("quit", "exit", "Quit", "ctrl+q", "quit", "quit"),
)
