"""The contract between decoding methods and model runtimes: Model, Session, Scores.

A runtime does one hard thing: it evaluates a *token tree* against a KV cache. Everything in `decoders/` is built on the few
calls below, so that every method runs on every runtime. This module imports neither torch nor any runtime.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from ..errors import Cancelled, ContextFull, UserError

if TYPE_CHECKING:
    from .infill import Gap

ROOT = -1
"""As a node's parent: the committed tail, that is, the node continues the committed tokens."""

PREFILL_CHUNK = 512
"""Most tokens of a prompt in one forward pass: bounds the attention mask, and how long a cancellation waits."""

Progress = Callable[[int, int], None]
"""Called with (done, total) units of work."""


@dataclass(frozen=True, slots=True)
class Block:
    """One of a decoder layer's two blocks, where an early pass runs this one and leaves the other out."""

    layer: int
    kind: Literal["attention", "mlp"]

    def __str__(self) -> str:
        return f"{self.layer}{self.kind[0]}"


Layers = int | Sequence[int | Block]
"""What an early pass runs: the first N layers, or a list with an index for a whole layer and a Block for half of one."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the target picks a token from its logits. Filters apply in transformers' own order, as listed.

    The pick is a pure function of logits, path, these settings and the absolute position (see `backends/choose.py`), so a seed
    gives one text whichever identical method drafts it.
    """

    temperature: float = 0.0
    """0 takes the most probable token (greedy); 1 samples the model's own distribution."""
    top_k: int = 0
    """Keep the k most probable tokens; 0 keeps all."""
    top_p: float = 1.0
    """Keep the smallest set of most probable tokens whose probabilities sum to at least top_p."""
    min_p: float = 0.0
    """Keep tokens at least min_p times as probable as the most probable one."""
    repetition_penalty: float = 1.0
    """Divide (multiply, where negative) the logits of tokens already on the path by this; 1 leaves them."""
    seed: int = 0
    """Key of the noise; the same seed gives the same text."""

    def __post_init__(self) -> None:
        """Refuse values outside their ranges.

        Raises:
            UserError: naming the setting and its range.
        """
        checks = (
            (self.temperature >= 0, "temperature must be 0 or more"),
            (self.top_k >= 0, "top_k must be 0 (off) or more"),
            (0 < self.top_p <= 1, "top_p must be above 0 and at most 1"),
            (0 <= self.min_p <= 1, "min_p must be between 0 and 1"),
            (self.repetition_penalty > 0, "repetition_penalty must be above 0"),
        )
        for holds, sentence in checks:
            if not holds:
                raise UserError(f"{sentence}.")

    @property
    def greedy(self) -> bool:
        """Whether the pick is the argmax."""
        return self.temperature == 0

    @property
    def uses_history(self) -> bool:
        """Whether the pick depends on the tokens before it (penalties)."""
        return self.repetition_penalty != 1


class Scores(ABC):
    """The target's logits at some nodes. They stay in the runtime's memory; by default only integers leave it.

    `nodes[i]` is the node of row i; `positions[i]` the absolute position of the token which that row predicts (the node's own
    position + 1).
    """

    nodes: tuple[int, ...]
    positions: tuple[int, ...]

    @abstractmethod
    def choose(self, sampling: Sampling, histories: Sequence[Sequence[int]] | None = None) -> list[int]:
        """The target's pick after each row's node.

        Args:
            sampling: the settings in force.
            histories: for each row all tokens up to and including its node; needed only if `sampling.uses_history`.
        """

    @abstractmethod
    def top(self, k: int) -> list[list[tuple[int, float]]]:
        """For each row the k most probable (token id, natural log-probability), best first, before any filter."""

    @abstractmethod
    def candidates(
        self,
        count: int,
        sampling: Sampling,
        histories: Sequence[Sequence[int]] | None = None,
        *,
        independent: bool = False,
    ) -> list[list[tuple[int, float]]]:
        """For each row up to `count` guesses (token id, probability), as a drafter makes them: at temperature 0 the most
        probable tokens, else a sample without replacement in the order of drawing. Its noise is the target's own at that
        position (so the first guess is `choose`'s pick), or, if `independent`, a drafter's, as acceptance rules need it."""

    @abstractmethod
    def probs(self, row: int, sampling: Sampling | None = None, history: Sequence[int] | None = None) -> Any:
        """Probabilities [vocab] (numpy float32) of one row: the plain softmax, or after `sampling`'s filters if given."""

    def kept(self) -> Scores:
        """The same, for longer than until the session's next pass."""
        return self

    def leads(self, rows: Sequence[int], sampling: Sampling, histories: Sequence[Sequence[int]] | None = None) -> list[float]:
        """By how much the pick after each of some rows leads the next best choice, in logits (noise and temperature counted).
        Infinite where nothing rounds."""
        return [math.inf] * len(rows)

    @abstractmethod
    def gap(self, row: int, token: int) -> float:
        """How far the logit of `token` lies below the row's highest (0 for the argmax itself): the size of a near tie."""


class Session(ABC):
    """One conversation's KV cache on one model. Not thread-safe.

    *Committed* tokens form the prefix; *nodes* are tentative tokens that hang below it as a tree. A node sees the committed
    prefix, its ancestors and itself; its position is `length` + its depth. Node ids count up from 0 in the order in which
    nodes were evaluated. Ids behind the last living node are given again after a drop, and all after a commit that leaves no
    node alive.
    """

    nodes_evaluated: int = 0
    """Nodes that have gone through the model since the session opened (prefill included)."""
    forward_seconds: float = 0.0
    """Seconds spent in `evaluate` since the session opened."""
    sound: int | None = None
    """How many committed tokens are in the cache bit for bit as plain decoding would have put them there; None for all. The
    next answer evaluates the others again (see `exact`)."""

    @property
    @abstractmethod
    def tokens(self) -> Sequence[int]:
        """The committed token ids (a live view: do not change it)."""

    @property
    def length(self) -> int:
        """How many tokens are committed."""
        return len(self.tokens)

    @property
    @abstractmethod
    def context(self) -> int:
        """Most tokens, committed and tentative together, that the cache can hold."""

    @abstractmethod
    def evaluate(
        self,
        tokens: Sequence[int],
        parents: Sequence[int],
        rows: Sequence[int] | None = None,
        layers: Layers | None = None,
    ) -> Scores:
        """Add tentative nodes and run one forward pass over them.

        Args:
            tokens: token id of each new node [n].
            parents: for each new node the id of a living node (which may be one of this call, earlier in it) or ROOT [n].
            rows: ids of the nodes whose scores are wanted, in the order wanted; None for all that this pass completes, ()
                for none.
            layers: draft with some of the layers and score with the final norm and LM head: the first N, or those in a list
                (rising, each layer once; a gap leaves layers out, a Block runs half a layer and is a gap too). Hidden states
                and K/V of the layers before the first gap are kept, so that none of these runs twice: the next full pass
                (`layers` None) takes every living node that stopped early on from there, together with the new nodes, and
                `rows` may name it; `evaluate((), ())` completes them alone. So does a pass through the first N layers with
                nodes that stopped after fewer of the first layers, if `rows` names them or they stand above its new nodes:
                they then have stopped after N, and what hangs below them as well. Nodes may stop at different layers, but a
                node needs above it what it runs itself, for an attention block that did not run left no K/V to see: complete
                nodes, or nodes that ran at least the same layers and blocks. A node that stopped early cannot be committed;
                it counts once in `nodes_evaluated`.

        Raises:
            ContextFull: the nodes do not fit; nothing was added.
            UserError: out of memory, layers that this model does not have, or blocks that it does not keep apart; the
                session is as it was.
            ValueError: a parent that is not alive, rows of other nodes, or a parent that left out what a node runs.
        """

    def exact(self, path: Sequence[int]) -> int:
        """How many nodes of `path` (a chain from ROOT), from its start, were evaluated as plain decoding would have done, bit
        for bit. The others may differ in a last bit: the loop does not commit them but evaluates them again in its next pass.
        All, where nothing is known about bits."""
        return len(path)

    def _note(self, path: Sequence[int], length: int | None = None) -> None:
        """Keep `sound` up to date: `path` is about to be committed, or the session has been rewound to `length`."""
        if length is not None:
            self.sound = None if self.sound is None or length <= self.sound else self.sound
        elif self.sound is None and (kept := self.exact(path)) < len(path):
            self.sound = self.length + kept

    @abstractmethod
    def commit(self, path: Sequence[int], keep: Sequence[int] = ()) -> None:
        """Make `path` (node ids, a chain from ROOT) the committed tail; nodes in `keep` that descend from its end stay alive,
        with their ids, every other node is freed. A ValueError if a node of the path has stopped early."""

    @abstractmethod
    def drop(self, nodes: Iterable[int]) -> None:
        """Free these nodes and their descendants."""

    @abstractmethod
    def rewind(self, length: int) -> None:
        """Forget every node, and all committed tokens after the first `length`."""

    @abstractmethod
    def close(self) -> None:
        """Free the cache."""

    def prefill(
        self,
        tokens: Sequence[int],
        progress: Progress | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> None:
        """Commit `tokens` in chunks of at most PREFILL_CHUNK, without scores. Nodes that are alive are freed.

        What was evaluated before a cancellation stays committed, so that a retry goes on from there.

        Raises:
            Cancelled: `cancelled` answered True between two chunks.
            ContextFull: the tokens do not fit; nothing was evaluated.
        """
        if self.length + len(tokens) > self.context:
            raise ContextFull(
                f"The prompt takes {self.length + len(tokens):,} tokens and the context holds {self.context:,}: "
                "shorten the prompt, start a new chat, or load the model with a larger context."
            )
        # With no node alive the ids below count from 0.
        self.commit(())
        for start in range(0, len(tokens), PREFILL_CHUNK):
            if cancelled is not None and cancelled():
                raise Cancelled
            chunk = tokens[start : start + PREFILL_CHUNK]
            self.evaluate(chunk, range(ROOT, len(chunk) - 1), rows=())
            self.commit(range(len(chunk)))
            if progress is not None:
                progress(start + len(chunk), len(tokens))

    def align(self, tokens: Sequence[int]) -> int:
        """Rewind to the longest common prefix with `tokens`; return its length (what a new turn need not prefill)."""
        mine = self.tokens
        limit = min(len(mine), len(tokens), len(mine) if self.sound is None else self.sound)
        shared = next((i for i in range(limit) if mine[i] != tokens[i]), limit)
        self.rewind(shared)
        return shared


Label = Literal["identical", "identical, near ties checked", "identical but for near ties", "same distribution", "lossy"]
"""*identical*: the plain method's own tokens (in passes that round otherwise than plain decoding: with near ties checked, or
but for near ties); *same distribution*: other tokens, equally probable; *lossy*: neither."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a model can do here, proven at load by evaluating it, never assumed from its name."""

    tree: bool = True
    """Branching trees give the logits of their linear paths."""
    chain: bool = True
    """Several tokens a pass, and rewinding, work: chains can be verified."""
    layers: bool = False
    """`evaluate(layers=N)` works: the first N layers can draft."""
    near_tie: float = 0.0
    """Where the two best choices after a node are closer than this, in logits, a pass of many nodes may pick the other one than
    a pass of one; 0 where it never does, because it gives the same bits or float32."""
    exact: bool = True
    """Passes of many nodes give the bits of passes of one along each tree's first path, or the weights are float32."""
    guard: bool = True
    """Near ties are decided in a pass of their own, as plain decoding decides them."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """For each False above (by its name) one sentence that says why."""

    @property
    def identical(self) -> Label:
        """What holds of a method that verifies by exact match."""
        if self.exact:
            return "identical"
        return "identical, near ties checked" if self.guard else "identical but for near ties"


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What the interface tells about a loaded model. Plain data: it crosses to the drawing process as JSON."""

    name: str
    """As the user named it."""
    backend: Literal["transformers", "llama.cpp", "recorded"]
    device: str
    dtype: str
    architecture: str
    parameters: int
    layers: int
    vocabulary: int
    """Rows of the LM head (ids that can be chosen)."""
    context: int
    """Most tokens of a conversation."""
    eos_ids: tuple[int, ...]
    has_template: bool
    """Whether a chat template is there; without one, prompts are plain completions."""
    capabilities: Capabilities = Capabilities()
    path: str = ""
    """Folder or file that it was read from."""
    load_seconds: float = 0.0
    notes: tuple[str, ...] = ()
    """Sentences worth showing: a fall back, a missing capability."""


Message = Mapping[str, str]
"""One chat message: {"role": "system" | "user" | "assistant", "content": text}."""


class Model(ABC):
    """Weights in memory, and the tokenizer that belongs to them. Several sessions may share one model."""

    info: ModelInfo

    @abstractmethod
    def open_session(self, context: int | None = None) -> Session:
        """A new, empty KV cache of at most `context` tokens (the model's own limit if None).

        Raises:
            UserError: there is not enough memory; says how much is missing and what to do.
        """

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """Token ids of plain text, with the BOS token if the model wants one. Text that spells a special token stays text."""

    @abstractmethod
    def encode_chat(self, messages: Sequence[Message], cancelled: Callable[[], bool] | None = None) -> list[int]:
        """Token ids of a chat up to where the assistant's next answer starts.

        Args:
            messages: the chat.
            cancelled: polled while the model's chat template runs.

        Raises:
            UserError: the model has no chat template, or its template refuses these messages, fails or does not end.
            Cancelled: `cancelled` answered True.
        """

    def encode_gap(self, prefix: str, suffix: str) -> Gap:
        """A text with a gap, for a model that fills in the middle.

        Raises:
            UserError: the tokenizer has no tokens for it.
        """
        from .infill import nowhere

        raise nowhere(self.info.name)

    @abstractmethod
    def decode(self, tokens: Sequence[int]) -> str:
        """Text of token ids: special tokens left out, invalid UTF-8 as U+FFFD, no clean-up of spaces."""

    @abstractmethod
    def pieces(self) -> list[str]:
        """For each id the text it shows as when alone (for trees and inspection; special tokens by name)."""

    def truncated(self, layers: int, *, write: bool = False) -> Model:
        """A model of the first `layers` layers with this one's final norm and head, for runtimes whose sessions cannot stop
        after some layers (`Capabilities.layers`); it is closed with this one.

        Args:
            layers: how many, fewer than this one has.
            write: it may be written to the disk however large it is.

        Raises:
            UserError: it cannot be made, and why.
        """
        raise UserError("The first layers of this model cannot be run alone: choose another method.")

    @abstractmethod
    def close(self) -> None:
        """Free the weights."""


class Stopwatch:
    """Adds the seconds spent inside `with` to a session's `forward_seconds`."""

    __slots__ = ("session", "start")

    def __init__(self, session: Session) -> None:
        self.session = session

    def __enter__(self) -> None:
        self.start = time.perf_counter()

    def __exit__(self, *exc: object) -> None:
        self.session.forward_seconds += time.perf_counter() - self.start
