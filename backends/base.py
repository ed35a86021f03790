"""The contract between decoding methods and model runtimes: Model, Session, Scores.

A runtime does one hard thing: it evaluates a *token tree* against a KV cache. Everything in `decoders/` builds on the few calls
below, so every method runs on every runtime. This module imports neither torch nor any runtime.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from ..errors import ContextFull, UserError, counted
from .info import ModelInfo
from .sampling import UNCONSTRAINED
from .sampling import Sampling as Sampling
from .sampling import Scores as Scores
from .thinking.form import no_variables

if TYPE_CHECKING:
    from llguidance import LLTokenizer
    from torch import Tensor

    from .sessions.states import States
    from .thinking.split import Thoughts

ROOT = -1
"""The parent of a node that continues the committed tokens."""

PREFILL_CHUNK = 512
"""The most prompt tokens in one forward pass. Bounds the attention mask, and how long a cancellation waits."""


BLOCK = 128
"""Prompt tokens in one forward pass where its size moves bits: a reading that begins again makes the passes of one from the
start."""


def chunk_of(left: int) -> int:
    """Size of the next prefill chunk: splits the rest of the prompt evenly, at most PREFILL_CHUNK each. Full chunks would
    leave a small one at the end, which reads all weights for a few tokens."""
    return -(-left // max(1, -(-left // PREFILL_CHUNK)))


@dataclass(frozen=True, slots=True)
class Block:
    """One of a decoder layer's two blocks; an early pass runs this one and skips the other."""

    layer: int
    kind: Literal["attention", "mlp"]

    def __str__(self) -> str:
        return f"{self.layer}{self.kind[0]}"


Layers = int | Sequence[int | Block]
"""Layers of an early pass: the first N, or a list with an index for each whole layer and a Block for each half."""


@dataclass(frozen=True, slots=True)
class RopeRule:
    """Which rotary frequencies a token is read with (LongRoPE, dynamic NTK): others in a text of more than `limit` tokens.

    A prompt is read as a whole, so all its tokens get the frequencies for its length; each later token gets those for the text
    that ends with it. That is what transformers' `generate` does, whose passes take their frequencies from the highest position
    in them.
    """

    limit: int
    """Most tokens of a text that is read with the first frequencies."""
    by_length: bool
    """Whether every length above has other frequencies (dynamic NTK); else all share theirs (LongRoPE)."""
    rereads: bool
    """Whether the model reads the whole text again when it grows past `limit`, as Phi-3 does; else what has been read stays."""

    def length(self, length: int) -> int:
        """Map a length to the one that stands for all texts whose tokens are read alike."""
        if length <= self.limit:
            return self.limit
        return length if self.by_length else self.limit + 1


class Session(ABC):
    """The KV cache of one conversation on one model. Not thread-safe.

    *Committed* tokens form the prefix; *nodes* are tentative tokens that hang below it as a tree. A node sees the committed
    prefix, its ancestors and itself; its position is `length` + its depth. Node ids count up from 0 in the order of evaluation.
    After a drop, ids above the last living node are reused; after a commit that leaves no node alive, all of them are.
    """

    tokens: Sequence[int]
    """The committed token ids (a live view; do not modify it)."""
    context: int
    """The most tokens that the cache can hold, committed and tentative together."""
    nodes_evaluated: int = 0
    """Nodes evaluated since the session opened (prefill included)."""
    forward_seconds: float = 0.0
    """Seconds spent in `evaluate` since the session opened."""
    branches: int | None = None
    """The most leaves that its living nodes may have; None for any number."""
    exact_length: int | None = None
    """Committed tokens whose cache entries are, bit for bit, those of plain decoding; None for all. The next answer evaluates
    the others again (see `exact`)."""
    rope: RopeRule | None = None
    """Rule by which the rotary positions depend on the length of the text; None where they do not."""
    _prompt: int = 0
    """Tokens of the prompt that `align` was last told of, the pending one included."""
    _states: States | None = None
    """Hidden states; None without taps."""

    @property
    def length(self) -> int:
        """Number of committed tokens."""
        return len(self.tokens)

    @abstractmethod
    def evaluate(
        self, tokens: Sequence[int], parents: Sequence[int], rows: Sequence[int] | None = None, layers: Layers | None = None
    ) -> Scores:
        """Add tentative nodes and run one forward pass over them.

        Args:
            tokens: token id of each new node [n].
            parents: for each new node, the id of a living node (possibly an earlier one of this call) or ROOT [n].
            rows: ids of the nodes to score, in the order wanted; None for all that this pass completes, () for none.
            layers: draft with some of the layers and score with the final norm and LM head: the first N, or those in a list
                (rising, each layer once; a gap leaves layers out, a Block runs half a layer and is a gap too). Hidden states
                and K/V of the layers before the first gap are kept, so that none of these runs twice: the next full pass
                (`layers` None) takes every living node that stopped early on from there, together with the new nodes, and
                `rows` may name it; `evaluate((), ())` completes them alone. Nodes may stop at different layers, but a node
                needs above it what it runs itself, for an attention block that did not run left no K/V to see: complete
                nodes, or nodes that ran at least the same layers and blocks. A node that stopped early cannot be committed;
                it counts once in `nodes_evaluated`.

        Raises:
            ContextFull: the nodes do not fit; nothing has been added.
            UserError: there is not enough memory, or the model does not have these layers or cannot separate these blocks; the
                session is unchanged.
            ValueError: a parent is not alive, a row names another node, or a parent skipped what its node runs.
        """

    def exact(self, path: Sequence[int]) -> int:
        """Count the nodes at the start of `path` (a chain from ROOT) that are, bit for bit, what plain decoding computes. The
        others may differ in the last bit, so the loop evaluates them again in its next pass instead of committing them. All
        nodes count if nothing is known about bits."""
        return len(path)

    def _note(self, path: Sequence[int], length: int | None = None) -> None:
        """Update `exact_length`: `path` is about to be committed, or the session has been rewound to `length`."""
        if length is not None:
            self.exact_length = None if self.exact_length is None or length <= self.exact_length else self.exact_length
        elif self.exact_length is None and (exact := self.exact(path)) < len(path):
            self.exact_length = self.length + exact

    @abstractmethod
    def commit(self, path: Sequence[int], keep: Sequence[int] = ()) -> None:
        """Commit `path` (node ids, a chain from ROOT). Nodes in `keep` that descend from its end stay alive under the same ids;
        every other node is freed. Raises ValueError if a node of the path has stopped early."""

    @abstractmethod
    def drop(self, nodes: Iterable[int]) -> None:
        """Free these nodes and their descendants."""

    @abstractmethod
    def rewind(self, length: int) -> None:
        """Forget every node, and all committed tokens after the first `length`."""

    def states(self, first: int, end: int) -> Tensor:
        """View the target's hidden states of the committed tokens `first` to `end` - 1: [end - first, taps × width],
        the taps side by side in the order asked for, on the model's device and in its type (llama.cpp: float32).

        Like K/V, states follow every commit and rewind, so a drafter that was not in use can catch up. What is rewound and
        evaluated again overwrites them.

        Raises:
            ValueError: the session has no taps, or these positions are not all committed.
        """
        if self._states is None:
            raise ValueError("this session has no taps")
        if not 0 <= first <= end <= self.length:
            raise ValueError(f"positions {first} to {end - 1} are not all committed: {self.length} tokens are")
        return self._states.read(first, end)

    @abstractmethod
    def close(self) -> None:
        """Free the cache."""

    def prefill(self, tokens: Sequence[int]) -> None:
        """Commit `tokens` in chunks (see `chunk_of`), without scores. Living nodes are freed.

        Raises:
            ContextFull: the tokens do not fit; nothing has been evaluated.
        """
        if self.length + len(tokens) > self.context:
            raise ContextFull(
                f"The prompt has {self.length + len(tokens):,} tokens, but the context holds {self.context:,}. Shorten the "
                "prompt, start a new chat, or load the model with a larger context."
            )
        # With no node alive the ids below count from 0.
        self.commit(())
        done = 0
        while done < len(tokens):
            chunk = tokens[done : done + chunk_of(len(tokens) - done)]
            self.evaluate(chunk, range(ROOT, len(chunk) - 1), rows=())
            self.commit(range(len(chunk)))
            done += len(chunk)

    @property
    def horizon(self) -> int:
        """Length from which the whole text must be read again (see `align`); the context if it never must."""
        rope = self.rope
        return rope.limit if rope is not None and rope.rereads and self._prompt <= rope.limit else self.context

    def align(self, tokens: Sequence[int], prompt: int | None = None, *, blocks: bool = False) -> int:
        """Begin a text of `tokens` and a pending one: rewind to the longest common prefix and return its length, what need not
        be prefilled.

        Args:
            tokens: the text.
            prompt: its first tokens that are the prompt, where an answer has begun; None for all of it.
            blocks: keep of an earlier prompt only whole blocks of BLOCK tokens.
        """
        shared = self.shared(tokens, prompt)
        if blocks and shared < self._prompt - 1:
            shared -= shared % BLOCK
        self.rewind(shared)
        self._prompt = self._whole(tokens, prompt)
        return shared

    def shared(self, tokens: Sequence[int], prompt: int | None = None) -> int:
        """Measure the longest common prefix with a text of `tokens` and a pending one that is exact, and was read as this
        text's tokens are (see `align`, `RopeRule`)."""
        mine, rope = self.tokens, self.rope
        limit = min(len(mine), len(tokens), len(mine) if self.exact_length is None else self.exact_length)
        if rope is not None:
            whole = self._whole(tokens, prompt)
            pairs = ((rope.length(max(i, self._prompt)), rope.length(max(i, whole))) for i in range(1, limit + 1))
            limit = next((i for i, (before, now) in enumerate(pairs) if before != now), limit)
        return next((i for i in range(limit) if mine[i] != tokens[i]), limit)

    def _whole(self, tokens: Sequence[int], prompt: int | None) -> int:
        """Count the tokens of a text that are read as a whole, the pending one included."""
        length, rope = len(tokens) + 1, self.rope
        return length if prompt is None or (rope is not None and rope.rereads and length > rope.limit) else prompt


Message = Mapping[str, str]
"""One chat message: {"role": "system" | "user" | "assistant", "content": text}; an answer may have its "thought" beside it."""


class Model(ABC):
    """Weights in memory with their tokenizer. Several sessions may share one model."""

    info: ModelInfo
    thoughts: Thoughts | None = None
    """Splits thoughts from answers; None if the model does not think."""
    untrue_states = (
        "The hidden states of a token tree were not this model's own, so drafters trained on them cannot draft for it."
    )
    """Error where sessions with taps do not return the model's own states."""
    _states_proven = False

    @abstractmethod
    def open_session(self, context: int | None = None, taps: Sequence[int] = ()) -> Session:
        """Open a new, empty KV cache of at most `context` tokens (the model's own limit if None).

        Args:
            context: how many tokens it can hold.
            taps: where `Session.states` reads the residual stream: k is before decoder layer k (0: the embeddings as layer 0
                gets them), the number of layers is the last state after the final norm. Without taps a pass costs nothing more.

        Raises:
            UserError: there is not enough memory; says how much is missing and what helps. Or this model cannot hand out
                hidden states, or has no such layer.
        """

    def proof_ids(self, count: int) -> list[int]:
        """Return ids of the text that proofs read (see `proof_text`)."""
        raise NotImplementedError

    def states_work(self) -> bool:
        """Whether sessions with taps hand out the model's own hidden states: a few passes, made once."""
        return False

    def tapped(self, taps: Sequence[int]) -> tuple[int, ...]:
        """Check the taps of a session to open; the first ones of all wait for the proof that they work.

        Raises:
            UserError: this model cannot hand out hidden states, or has no such layer.
        """
        info = self.info
        if taps and not info.capabilities.states:
            raise UserError(info.capabilities.reasons.get("states", f"{info.name} cannot hand out its hidden states."))
        if any(not 0 <= tap <= info.layers for tap in taps):
            raise UserError(
                f"{info.name} has {counted(info.layers, 'layer')}, so hidden states can be read at 0 to {info.layers}, not at "
                f"{', '.join(map(str, taps))}."
            )
        if taps and not self._states_proven:
            if not self.states_work():
                reasons = {**info.capabilities.reasons, "states": self.untrue_states}
                self.info = replace(info, capabilities=replace(info.capabilities, states=False, reasons=reasons))
                raise UserError(self.untrue_states)
            self._states_proven = True
        return tuple(taps)

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """Encode plain text as token ids, with the BOS token if the model wants one. Text that spells a special token stays
        text."""

    def variables(self, think: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """Collect the chat template's variables for a word of `think` (see `Thinking.words`), and those that are given.

        Raises:
            UserError: the model knows no such word or variable; says which it knows.
        """
        return no_variables(think, values)

    @abstractmethod
    def encode_chat(self, messages: Sequence[Message], variables: Mapping[str, Any] | None = None) -> list[int]:
        """Encode a chat as token ids, up to where the assistant's next answer starts.

        Args:
            messages: the chat.
            variables: for the template, as `variables` gives them.

        Raises:
            UserError: the model has no chat template, or the template rejects these messages or fails.
        """

    @abstractmethod
    def decode(self, tokens: Sequence[int]) -> str:
        """Decode token ids to text: special tokens are left out, invalid UTF-8 becomes U+FFFD, spaces stay as they are."""

    @abstractmethod
    def pieces(self) -> list[str]:
        """List the text of each id alone, for trees and the inspector; special tokens by name."""

    def grammar_tokenizer(self) -> LLTokenizer:
        """Build its vocabulary as llguidance reads it, on first use (a second for 150,000 tokens).

        Raises:
            UserError: this model's answers cannot follow a schema.
        """
        raise UserError(UNCONSTRAINED)

    @abstractmethod
    def close(self) -> None:
        """Free the weights."""
