"""The division of an answer into thought and text, exact and incremental, by the marks of a model's form of thoughts.

An answer is a row of units: characters, and *atoms*, the ids of tokens that stand for whole tags. A mark is a row of units too:
`<|channel|>analysis<|message|>` is an atom, eight characters, and an atom. If the vocabulary has a token for a tag, only that
token counts, so an answer that explains `<think>` by spelling it stays an answer; a mark without atoms opens a thought only
before the first word. Half a mark waits for the rest, so the cuts between tokens and passes make no difference. Only marks are
left out, with the white space that the template writes next to them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from ..info import Thinking
from .form import TAG, Form, Marks, State

Unit = str | int
Row = tuple[Unit, ...]
Rule = tuple[Row, State, str]
"""A mark as a row of units, the state behind it, and the white space to leave out there."""

HEADER = 48
"""Most units between the first and the last tag of a header such as <|channel|>commentary to=user<|message|>."""

THOUGHT, ANSWER = 1, 0


def units(text: str, atoms: Mapping[str, int]) -> Row:
    """Split a text into units, with atoms for the names of tags."""
    row: list[Unit] = []
    names = sorted(filter(None, atoms), key=len, reverse=True)
    for i, part in enumerate(re.split(f"({'|'.join(map(re.escape, names))})", text) if names else [text]):
        row += [atoms[part]] if i % 2 else part
    return tuple(row)


@dataclass(frozen=True, slots=True)
class Rules:
    """Marks as rows of units, for each state in which they may come."""

    rows: Mapping[State, Sequence[Rule]]
    firsts: Mapping[State, frozenset[Unit]]
    """The first units of each state's rows."""
    atoms: frozenset[int]
    close: int | None
    """The token that closes a thought, if it is a single one."""
    heads: frozenset[Unit]
    """Atoms that begin a header, whose words may be unknown."""
    header: Row
    """The header of a thought, whose last unit ends every header."""


def compile_rules(marks: Marks, names: Mapping[str, int]) -> Rules:
    """Compile the rules for a template's marks.

    Args:
        marks: the template's.
        names: text of every token that stands for a whole tag → its id.
    """
    opening, close, answer, resume = (units(mark, names) for mark in (marks.open, marks.close, marks.answer, marks.resume))
    to_thought: Rule = (opening, "thought", marks.before)
    to_answer: list[Rule] = [(row, "answer", "") for row in dict.fromkeys((answer, resume))]
    sure = [rule for rule in to_answer if rule[0] and isinstance(rule[0][0], int)]
    closing: list[Rule] = [(units(marks.after, {}) + close, "gap", marks.gap), (close, "gap", marks.gap)]
    tags = [tag.end() for tag in TAG.finditer(marks.finish)]
    finish: list[Rule] = [(units(marks.finish[:end], names), "answer", "") for end in tags]
    reopening = [to_thought] if opening and isinstance(opening[0], int) else []
    doubled: list[Rule] = [(close, "answer", marks.gap)] if isinstance(close[0], int) else []
    by_state: dict[State, list[Rule]] = {
        "start": [to_thought, *to_answer],
        "thought": [*closing, *sure],
        "gap": [to_thought, *to_answer, (close, "gap", marks.gap)],
        "answer": [*reopening, *sure, *finish, *doubled],
    }
    rows = {state: [row for row in rules if row[0]] for state, rules in by_state.items()}
    heads, header = frozenset[Unit](), Row()
    if answer and len(opening) > 2 and isinstance(opening[-1], int) and opening[-1] == answer[-1]:
        heads = frozenset(row[0] for row in (opening, answer, resume) if row and isinstance(row[0], int))
        header = opening if heads else ()
    return Rules(
        rows,
        {state: frozenset(row[0] for row, _, _ in rules) | heads for state, rules in rows.items()},
        frozenset(unit for rules in rows.values() for row, _, _ in rules for unit in row if isinstance(unit, int)),
        close[0] if len(close) == 1 and isinstance(close[0], int) else None,
        heads,
        header,
    )


class Splitter:
    """A splitter of one answer into thought and text.

    Args:
        rules: of the model's marks.
        state: the place at which the prompt leaves the answer.
        skip: white space that the template would still write there.
    """

    def __init__(self, rules: Rules, state: State = "start", skip: str = "") -> None:
        self.rules = rules
        self.atoms = rules.atoms
        self.state: State = state
        self._skip = skip
        self._waiting: list[Unit] = []
        self.bound = False
        """Whether everything from here on is the answer, even marks."""

    def bind(self) -> None:
        """Treat everything from here on as the answer that a constraint asks for, without the white space before it."""
        self.bound = True
        self.state = "answer"
        self._waiting.clear()

    @property
    def part(self) -> int:
        """The current part, THOUGHT or ANSWER. Marks belong to the thought: a waiting atom is one, and so, probably, is
        text that waits at the start."""
        if self.state in ("thought", "answer"):
            return int(self.state == "thought")
        first = next((unit for unit in self._waiting if isinstance(unit, int) or not unit.isspace()), "")
        if self.state == "start":
            return int(first != "")
        return int(not self._waiting or isinstance(first, int))

    @property
    def waiting(self) -> str:
        """Text that may be half a mark."""
        return "".join(unit for unit in self._waiting if isinstance(unit, str))

    @property
    def half(self) -> bool:
        """Whether a mark has begun with its token and is incomplete."""
        return any(isinstance(unit, int) for unit in self._waiting)

    def push(self, text: str, atom: int | None = None) -> list[tuple[int, str]]:
        """Add text, and an atom behind it; return the text that is certain now, each piece with its part."""
        if self.bound:
            return [(ANSWER, text)] if text else []
        plain = atom is None and not self._waiting and not self._skip and self.state in ("thought", "answer")
        if plain and self.rules.firsts[self.state].isdisjoint(text):  # most of the time
            return [(self.part, text)] if text else []
        self._waiting += text
        if atom is not None:
            self._waiting.append(atom)
        return self._settle(final=False)

    def finish(self) -> list[tuple[int, str]]:
        """End the answer; return the rest, in which an incomplete mark is text."""
        return self._settle(final=True)

    def _settle(self, *, final: bool) -> list[tuple[int, str]]:
        out: list[tuple[int, str]] = []
        waiting, at = self._waiting, 0
        while at < len(waiting):
            if self._skip and waiting[at] == self._skip[0]:
                self._skip, at = self._skip[1:], at + 1
                continue
            self._skip = ""
            match = self._match(at, final)
            if match is None:
                break
            used, state, skip = match
            if used:
                self.state = state
                self._skip = skip
                at = at + used
                continue
            unit = waiting[at]
            at += 1
            if isinstance(unit, int):
                continue
            if self.state in ("start", "gap") and not unit.isspace():
                self.state = "answer"
            part = THOUGHT if self.state == "thought" else ANSWER
            if out and out[-1][0] == part:
                out[-1] = (part, out[-1][1] + unit)
            else:
                out.append((part, unit))
        del waiting[:at]
        return out

    def _match(self, at: int, final: bool) -> tuple[int, State, str] | None:
        """Match a mark at a unit: its length (0 if the unit is text), the state and the white space behind it; None to wait for
        more."""
        waiting, state, first = self._waiting, self.state, at
        if state in ("start", "gap"):  # white space before a mark belongs to it
            while first < len(waiting) and isinstance(unit := waiting[first], str) and unit.isspace():
                first += 1
            if first == len(waiting):
                return (0, state, "") if final else None
        if waiting[first] not in self.rules.firsts[state]:
            return 0, state, ""
        best, left = (0, state, ""), len(waiting) - first
        for row, then, skip in self.rules.rows[state]:
            count = min(len(row), left)
            if any(waiting[first + i] != row[i] for i in range(count)):
                continue
            if count < len(row):
                if not final:
                    return None
            elif first - at + count > best[0]:
                best = (first - at + count, then, skip)
        if best[0] and state == "answer" and isinstance(waiting[first], str):
            # The end mark of an answer, spelled out, is one only where nothing follows.
            if any(isinstance(unit, str) and not unit.isspace() for unit in waiting[at + best[0] :]):
                return 0, state, ""
            return best if final else None
        if not best[0] and state != "thought" and waiting[first] in self.rules.heads:
            header = self.rules.header
            for end in range(first + 1, min(len(waiting), first + HEADER) + 1):
                if waiting[end - 1] == header[-1]:
                    thought = tuple(waiting[max(first, end - len(header)) : end]) == header
                    return (end - at, "thought" if thought else "answer", "")
            return None if not final and left < HEADER else (0, state, "")
        return best


END = 64
"""Tokens at the end of a prompt that show whether a thought is open; generation prompts are shorter."""

PAIRS = (
    ("<think>", "</think>"),
    ("[THINK]", "[/THINK]"),
    ("<thinking>", "</thinking>"),
    ("<seed:think>", "</seed:think>"),
    ("<mm:think>", "</mm:think>"),
    ("◁think▷", "◁/think▷"),
)
"""Marks of models whose template does not handle thoughts (MiniMax M1, MiMo-VL, Magistral), used if both are tokens."""


class Thoughts:
    """The reader of a model's thoughts.

    Args:
        form: how its template writes them.
        names: text of every token that stands for a whole tag → its id.
        spell: token ids to text with every token in it.
        encode: text of a template, in the middle of a text, to token ids.
    """

    def __init__(
        self, form: Form, names: Mapping[str, int], spell: Callable[[Sequence[int]], str], encode: Callable[[str], list[int]]
    ) -> None:
        self.form = form
        self.info = replace(form.info, sentence=form.sentence)
        self._rules = compile_rules(form.marks, names)
        self.spell = spell
        self._encode = encode

    def splitter(self, prompt: Sequence[int]) -> Splitter:
        """Make the splitter for the answer to a prompt."""
        marks, end = self.form.marks, self.spell(prompt[-END:])
        state, bare = marks.state(end), end.rstrip()
        usual = ""
        if state == "thought":
            usual = marks.before
        elif bare.endswith(marks.close) and not marks.resume:
            usual = marks.gap
        return Splitter(self._rules, state, usual.removeprefix(end[len(bare) :]))

    def closing(self, last: str) -> list[int]:
        """Encode the end of a thought and the beginning of the answer, given the thought's last characters."""
        marks = self.form.marks
        after = "" if last.endswith(marks.after) else marks.after
        return self._encode(f"{after}{marks.close}{marks.gap}{marks.resume}")


def usual_pair(names: Collection[str]) -> tuple[()] | tuple[str, str]:
    """Return the usual marks that are both tokens of a vocabulary; empty if there are none."""
    return next((pair for pair in PAIRS if set(pair) <= set(names)), ())


def from_vocabulary(names: Mapping[str, int]) -> Form | None:
    """Make the form of a model whose template does not handle thoughts from its vocabulary; None without a usual pair."""
    pair = usual_pair(names)
    return Form(Marks(*pair, before="\n", after="\n", gap="\n\n"), Thinking(marks=pair)) if pair else None
