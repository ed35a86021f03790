"""A recorded transcript as a model: its choice after a recorded prompt is the recorded answer, token by token. It obeys the
contract of `backends.base` without any weights; `SPECCHAT_RUNTIME` names `load_recorded`, so that every process finds it."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specchat.backends import Capabilities, Message, Model, ModelInfo, Sampling, Scores, UserError
from specchat.backends.base import Layers
from specchat.backends.info import Thinking
from specchat.backends.sessions.tree import Node, TreeSession
from specchat.backends.thinking.form import Form, Marks
from specchat.backends.thinking.split import Thoughts
from specchat.backends.transcripts import scan_transcripts

CONTEXT = 131_072
"""Tokens that a recorded model holds unless a test asks for another limit: the usual one of current models."""
CERTAINTY = 0.9
"""Probability of the recorded token; a record says nothing about the others, which share the rest evenly."""
NODE_SLOPE = 0.02
"""Cost of each node after the first of a paced pass, as a share of a one-node pass: about that of a small model."""
NO_LAYERS = "A recorded transcript has no layers."
ECHOES = 3
"""Repetitions of a prompt that is not on record in its answer: enough for every drafter to find matches."""


class WordTokenizer:
    """Words of given texts, and UTF-8 bytes for all else: ids 0 … 255 are bytes, 256 is EOS, the words follow."""

    WORD = re.compile(r" ?[A-Za-z0-9_]+")
    eos_id = 256

    def __init__(self, texts: Iterable[str] = ()) -> None:
        words = dict.fromkeys(word for text in texts for word in self.WORD.findall(text) if len(word) > 1)
        self._ids = {word: self.eos_id + 1 + i for i, word in enumerate(words)}
        self._bytes = dict(enumerate(bytes([byte]) for byte in range(256))) | {
            i: word.encode() for word, i in self._ids.items()
        }
        self.size = self.eos_id + 1 + len(words)

    def encode(self, text: str) -> list[int]:
        ids: list[int] = []
        for part in re.split(f"({self.WORD.pattern})", text):
            ids += [self._ids[part]] if part in self._ids else part.encode(errors="replace")
        return ids

    def decode(self, tokens: Sequence[int]) -> str:
        return b"".join(self._bytes.get(token, b"") for token in tokens).decode(errors="replace")

    def pieces(self) -> list[str]:
        pieces = {i: raw.decode() if raw.isascii() else f"<0x{raw[0]:02X}>" for i, raw in self._bytes.items()}
        return [pieces.get(i, "<eos>") for i in range(self.size)]


class RecordedModel(Model):
    """Recorded answers as the target, whatever the sampling: after a path that is a prefix of a record the choice is the
    recorded next token, at a response's end and off the record EOS. Of several records the first one whose response is reached
    decides. `cost` gives the seconds that a pass over n nodes takes."""

    def __init__(
        self,
        *,
        tokenizer: WordTokenizer | None = None,
        cost: Callable[[int], float] | None = None,
        context: int = CONTEXT,
        name: str = "recorded",
    ) -> None:
        self.tokenizer = tokenizer or WordTokenizer()
        self.cost = cost
        self.lines: list[tuple[int, ...]] = []
        """Each record's prompt + response, without EOS."""
        self.starts: list[int] = []
        """The place at which each record's response starts."""
        self._by_prompt: dict[tuple[int, ...], int] = {}
        self._texts: dict[str, tuple[Sequence[int], Sequence[int]]] = {}
        self.info = ModelInfo(
            name, backend="recorded", device="", dtype="", architecture="recorded transcript", parameters=0, layers=0,
            vocabulary=self.tokenizer.size, context=context, eos_ids=(self.tokenizer.eos_id,), has_template=True,
            capabilities=Capabilities(reasons={"layers": NO_LAYERS, "states": NO_LAYERS}),
            path=name.removeprefix("recorded:").partition("?")[0],
        )  # fmt: skip

    def add(self, prompt: Sequence[int], response: Sequence[int], text: str | None = None) -> None:
        """Record one more answer, without EOS; the first answer to a prompt stays. `text` is the prompt as a chat message."""
        if self._by_prompt.setdefault(tuple(prompt), len(self.lines)) == len(self.lines):
            self.lines.append((*prompt, *response))
            self.starts.append(len(prompt))
            if self.thoughts is None and (form := thinking(self.decode(response))) is not None:
                self.thoughts = Thoughts(form, {}, self.decode, self.tokenizer.encode)
        if text is not None:
            self._texts.setdefault(text.strip(), (tuple(prompt), tuple(response)))

    def _token_at(self, record: int, position: int) -> int:
        """Find the token that a record holds at an absolute position; EOS after its end."""
        line = self.lines[record]
        return line[position] if position < len(line) else self.tokenizer.eos_id

    def narrow(self, matching: tuple[int, ...], position: int, token: int) -> tuple[int, ...]:
        """Filter the records that agree with a path of `position` tokens: those that go on with `token`."""
        if len(matching) == 1:  # the usual case, once a path has left the records' common start
            return matching if self._token_at(matching[0], position) == token else ()
        records = tuple(record for record in matching if self._token_at(record, position) == token)
        return matching if len(records) == len(matching) else records  # shared, so that long prompts take no memory

    def next_token(self, matching: tuple[int, ...], position: int) -> int | None:
        """Choose after a path of `position` tokens that these records agree with; None off the record."""
        reached = (record for record in matching if position >= self.starts[record])
        record = next(reached, matching[0] if matching else None)
        return None if record is None else self._token_at(record, position)

    def open_session(self, context: int | None = None, taps: Sequence[int] = ()) -> RecordedSession:
        self.tapped(taps)
        return RecordedSession(self, min(context or self.info.context, self.info.context))

    def encode(self, text: str) -> list[int]:
        """Token ids of plain text, or of a recorded prompt (in which special tokens are tokens) if the text is one."""
        recorded_ids = self._texts.get(text.strip())
        return list(recorded_ids[0]) if recorded_ids else self.tokenizer.encode(text)

    def encode_chat(self, messages: Sequence[Message], variables: Mapping[str, Any] | None = None) -> list[int]:
        """Token ids of a chat. The last user message decides the answer: a recorded one, else one made up that repeats it."""
        question = next((m["content"].strip() for m in reversed(messages) if m["role"] == "user"), None)
        if question is None:
            raise UserError("A recorded transcript answers a user's message, and this chat has none. Write one.")
        tokens: list[int] = []
        for message in messages:
            text = message["content"] + ("\n" if message["role"] == "system" else "")
            tokens += self.tokenizer.encode(text) if tokens else self.encode(text)
            if message["role"] == "assistant":
                tokens.append(self.tokenizer.eos_id)
        echo = "\n".join([f"You said: {question}"] * ECHOES)
        self.add(tokens, self._texts[question][1] if question in self._texts else self.tokenizer.encode(echo))
        return tokens

    def decode(self, tokens: Sequence[int]) -> str:
        return self.tokenizer.decode(tokens)

    def pieces(self) -> list[str]:
        return self.tokenizer.pieces()

    def close(self) -> None:
        for records in (self.lines, self.starts, self._by_prompt, self._texts):
            records.clear()


@dataclass(slots=True)
class RecordedNode(Node):
    """A tentative token, with the records that agree with its path."""

    matching: tuple[int, ...]


class RecordedSession(TreeSession[RecordedNode]):
    """A cache that holds nothing but tokens, and which records agree with them."""

    def __init__(self, model: RecordedModel, context: int) -> None:
        super().__init__(context)
        self._model = model
        self._known = len(model.lines)
        self._matching = [tuple(range(self._known))]  # [length + 1]: the records that agree with the first i tokens

    def evaluate(
        self, tokens: Sequence[int], parents: Sequence[int], rows: Sequence[int] | None = None, layers: Layers | None = None
    ) -> RecordedScores:
        if layers is not None:
            raise UserError("A recorded transcript has no layers to stop after. Choose a method other than early-exit.")
        self._check(tokens, parents)
        nodes = self._rows(len(tokens), rows)
        start = time.perf_counter()
        self._catch_up()
        first, new = self._next, list[RecordedNode]()
        for token, parent in zip(tokens, parents, strict=True):
            new.append(self._node(token, parent, new[parent - first] if parent >= first else self._nodes.get(parent)))
        self._add(new)
        if self._model.cost is not None and tokens:
            time.sleep(self._model.cost(len(tokens)))
        self.forward_seconds += time.perf_counter() - start
        return RecordedScores(self._model, nodes, [self._place(node) for node in nodes])

    def _node(self, token: int, parent: int, above: RecordedNode | None) -> RecordedNode:
        position = self.length if above is None else above.position + 1
        matching = self._matching[-1] if above is None else above.matching
        return RecordedNode(token, parent, position, True, self._model.narrow(matching, position, token))

    def _place(self, node: int) -> tuple[int, tuple[int, ...]]:
        """Position of the token that a node predicts, and the records that agree up to there."""
        return self._nodes[node].position + 1, self._nodes[node].matching

    def _catch_up(self) -> None:
        """Match again if the model has new records (a chat puts its next prompt on record)."""
        if self._known == len(self._model.lines):
            return
        self._known = len(self._model.lines)
        self._matching = [tuple(range(self._known))]
        for position, token in enumerate(self.tokens):
            self._matching.append(self._model.narrow(self._matching[-1], position, token))
        for number, node in self._nodes.items():
            self._nodes[number] = self._node(node.token, node.parent, self._nodes.get(node.parent))

    def _settle(self, path: Sequence[int], nodes: dict[int, RecordedNode]) -> None:
        self._matching += [self._nodes[number].matching for number in path]

    def _free(self, nodes: set[int]) -> None:
        pass

    def _cut(self, length: int) -> None:
        del self._matching[length + 1 :]

    def close(self) -> None:
        self.rewind(0)


class RecordedScores(Scores):
    """The record's choices. As probabilities: CERTAINTY for the recorded token, the rest spread evenly over the others."""

    def __init__(self, model: RecordedModel, nodes: Sequence[int], places: Sequence[tuple[int, tuple[int, ...]]]) -> None:
        self.nodes = tuple(nodes)
        self.positions = tuple(position for position, _ in places)
        choices = [model.next_token(matching, position) for position, matching in places]
        self._chosen = [model.tokenizer.eos_id if token is None else token for token in choices]
        self._size = model.info.vocabulary
        self._other = math.log((1 - CERTAINTY) / max(1, self._size - 1))  # the log-probability of every other token

    def choose(self, sampling: Sampling, histories: Sequence[Sequence[int]] | None = None) -> list[int]:
        return list(self._chosen)

    def top(self, k: int) -> list[list[tuple[int, float]]]:
        rest = range(min(k, self._size))
        best = math.log(CERTAINTY)
        return [[(token, best), *((other, self._other) for other in rest if other != token)][:k] for token in self._chosen]

    def candidates(
        self,
        count: int,
        sampling: Sampling,
        histories: Sequence[Sequence[int]] | None = None,
        *,
        attempts: Sequence[int] | None = None,
    ) -> list[list[tuple[int, float]]]:
        return [[(token, math.exp(log)) for token, log in row] for row in self.top(count)]

    def probs(self, row: int, sampling: Sampling | None = None, history: Sequence[int] | None = None) -> Any:
        import numpy as np  # here alone: drafting and verifying by exact match need no arrays

        # After any filter the record's choice is all there is.
        probs = np.full(self._size, math.exp(self._other) if sampling is None else 0, dtype=np.float32)
        probs[self._chosen[row]] = CERTAINTY if sampling is None else 1
        return probs

    def gap(self, row: int, token: int) -> float:
        return 0.0 if token == self._chosen[row] else math.log(CERTAINTY) - self._other


def thinking(text: str) -> Form | None:
    """Find the marks of thoughts, where an answer begins with one."""
    marks = Marks("<think>", "</think>", before="\n", after="\n", gap="\n\n")
    if text.startswith(marks.open) and marks.close in text:
        return Form(marks, Thinking(marks=(marks.open, marks.close)))
    return None


def load_recorded(spec: str) -> RecordedModel | None:
    """Load answers from `recorded:FILE`, one {"prompt", "response"} a line; `?pace=SECONDS` is what a pass over a node
    takes."""
    kind, _, rest = spec.partition(":")
    if kind != "recorded":
        return None
    name, _, pace = rest.partition("?pace=")
    records, problems = scan_transcripts(Path(name))
    if problems:
        raise UserError(problems[0])
    tokenizer = WordTokenizer(text for record in records for text in (record.prompt, record.response))
    cost = (lambda nodes: float(pace) * (1 + NODE_SLOPE * (nodes - 1))) if pace else None
    model = RecordedModel(tokenizer=tokenizer, cost=cost, name=spec)
    for record in records:
        model.add(tokenizer.encode(record.prompt), tokenizer.encode(record.response), text=record.prompt)
    return model
