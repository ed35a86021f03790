"""Properties and capabilities of a loaded model: plain data, which crosses to the process that draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Literal

Label = Literal["identical", "identical but for near ties", "same distribution", "lossy"]
"""Distance of a method's text from plain decoding's. *identical*: the same tokens, or, where larger passes round otherwise,
the same but for near ties; *same distribution*: other tokens, drawn with the same probabilities; *lossy*: neither."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Capabilities of a model on this machine: tested at load by evaluating it, never inferred from its name."""

    tree: bool = True
    """A branching tree gives the same logits as its paths evaluated one by one."""
    chain: bool = True
    """Passes of several tokens, and rewinding, work: chains can be verified."""
    layers: bool = False
    """`evaluate(layers=N)` works: the first N layers can draft."""
    states: bool = False
    """Sessions with taps work: `Session.states` gives the model's own hidden states. Few ever ask, so only what rules it out is
    known at load; the first session with taps tests it, and where it fails, the model's info says so from then on."""
    exact: bool = True
    """The passes that methods make give the bits of plain passes along each tree's first path; or the weights are float32."""
    most: int | None = None
    """Nodes of the largest pass that methods may make, so that its bits are plain decoding's: chains only. None for any."""
    near_tie: float = 0.0
    """If the best choices after a node beside a tree's first path are closer than this, in logits, the next pass decides."""
    equal: tuple[int, ...] = ()
    """Sizes of passes that had equal bits at load."""
    measured: int = 0
    """Tokens that were compared at load in passes of several sizes."""
    turned: int = 0
    """Those of them where another token had a higher logit than plain decoding's choice."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """For each capability above that is False, one sentence that says why."""

    @property
    def identical(self) -> Label:
        """Label of a method that verifies by exact match."""
        return "identical" if self.exact else "identical but for near ties"

    @property
    def branching(self) -> bool:
        """Whether methods may draft branching trees under the exact rule."""
        return self.tree and self.most is None


NOT_NUMBERS = (
    "This model computes NaN instead of scores, so its answers mean nothing. Its file is damaged (download it again), or its "
    "dtype is too narrow (try --dtype float32)."
)
"""Reason why nothing can be proven of a model whose numbers overflow."""


@dataclass(frozen=True, slots=True)
class Thinking:
    """A model's thinking before its answers and its switches, derived from its chat template and its tokenizer."""

    words: tuple[str, ...] = ()
    """Values of `think`, in the order to cycle through: off, on, low, medium, high …; empty where it cannot be switched."""
    default: str = ""
    """Which of them the template takes by itself; empty if none of them says it."""
    marks: tuple[str, str] = ("", "")
    """Text that the model writes before and behind a thought."""
    carrier: str = ""
    """Place of an earlier thought in the template: the message's field (`reasoning_content`, `thinking`, …), `parts` or
    `blocks` of the content, `content` (in the content itself), or empty for not at all."""
    variables: tuple[str, ...] = ()
    """Variables that the template reads, which `template_vars` may set."""
    sentence: str = ""
    """Explanation of its thinking and of the switches."""


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """The engine of a server, and the method by which it decodes."""

    engine: str
    method: str


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """The description of a loaded model, which crosses to the drawing process. One without a name stands for no model."""

    name: str = ""
    """The model's name, as the user gave it."""
    backend: str = ""
    """transformers, llama.cpp or server."""
    device: str = ""
    dtype: str = ""
    architecture: str = ""
    parameters: int = 0
    layers: int = 0
    vocabulary: int = 0
    """Rows of the LM head: how many token ids can be chosen."""
    context: int = 0
    """Most tokens that the model can see at once."""
    eos_ids: tuple[int, ...] = ()
    has_template: bool = True
    """Whether the model has a chat template; without one, prompts are plain completions."""
    capabilities: Capabilities = Capabilities()
    pard_token: int | None = None
    """The mask token of a PARD draft model: in its place the model predicts a token whose neighbours are not known yet."""
    path: str = ""
    """The folder or file that it was loaded from."""
    load_seconds: float = 0.0
    notes: tuple[str, ...] = ()
    """Sentences worth showing: a fallback, a missing capability."""
    embeddings: int | None = None
    """Rows of the table of embeddings: how many token ids can be read. None for as many as can be chosen."""
    pass_seconds: tuple[tuple[int, float], ...] = ()
    """(nodes, seconds) of passes behind a short text (see `pass_times.pass_seconds`)."""
    timed: float = 0.0
    """When that was measured (Unix time)."""
    thinking: Thinking | None = None
    """Its thinking; None without any."""

    active: float = 1.0
    """Share of a mixture's experts that a token is sent to."""

    sampling: Mapping[str, float] = field(default_factory=dict)
    """Sampling that the model's makers recommend: settings that are not at their defaults, by name."""

    server: ServerInfo | None = None
    """For a model on a server, what decodes it there."""

    def __bool__(self) -> bool:
        """Whether it describes a model."""
        return bool(self.name)

    @property
    def readable(self) -> int:
        """Number of token ids that can be read."""
        return self.vocabulary if self.embeddings is None else self.embeddings


MOST_NODES = 256
"""Most nodes of a pass whose cost is asked for."""


@lru_cache(maxsize=32)
def plain_passes(curve: tuple[tuple[int, float], ...]) -> Sequence[float]:
    """Cost of a pass over 0, 1 … MOST_NODES nodes in passes over one, on straight lines between the sizes that were measured.

    Args:
        curve: (nodes, seconds) by rising nodes, as `ModelInfo.pass_seconds`; without a pass over one node, every pass costs the
            same.
    """
    points = [(nodes, seconds / curve[0][1]) for nodes, seconds in curve] if curve and curve[0][0] == 1 else [(1, 1.0)]
    # Beyond the largest size it goes on as from half of that.
    last, cost = points[-1]
    half, before = next(point for point in reversed(points) if 2 * point[0] <= last or point == points[0])
    slope = max(0.0, (cost - before) / (last - half)) if last > half else 0.0
    points.append((last + MOST_NODES, cost + slope * MOST_NODES))
    costs = [points[0][1]]
    for (low, cheap), (high, dear) in pairwise([(0, points[0][1]), *points]):
        costs += [cheap + (dear - cheap) * n / (high - low) for n in range(1, high - low + 1)]
    return costs[: MOST_NODES + 1]


@lru_cache(maxsize=32)
def least_share(curve: tuple[tuple[int, float], ...]) -> float:
    """Return the least that a further node adds to a pass, on average over a pass of the best size, in plain passes."""
    costs = plain_passes(curve)
    return max(0.0, min((costs[n] - 1) / (n - 1) for n in range(2, MOST_NODES + 1)))


def token_id(value: object, vocabulary: int) -> int | None:
    """Check a token id from a model's files; None if it is not one."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < vocabulary else None
