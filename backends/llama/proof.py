"""Proof at load that a session gives a GGUF model's own logits: a five-node tree grown in two passes, chains and rewinds.

The yardstick is the same text as plain chains from an empty cache: what is tested is branching and going back. Quantized
weights round by the size of a pass, so a control gives the limit: the difference of the same tokens in passes of other sizes,
without any branch or rewind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ..base import ROOT
from ..info import NOT_NUMBERS, Capabilities
from ..proof import SessionProof, alike, attempt, difference
from ..rounding import TOKENS
from .plain import LlamaHybridSession
from .session import LlamaSession

PREFIX = 16
"""Tokens before the tree: enough of a text that the model knows what it reads."""

LEAST_FAULT = 0.02
"""Least root-mean-square difference of logits, in units of their standard deviation, that is taken for a fault. A wrong mask
costs some 0.5."""
CONTROLS = 4.0
"""Times the control's difference that is taken for a fault: the paths are a few tokens, and some move more than others."""
TOLERANCE = 0.3
"""Difference that is a fault whatever the control shows. Real text in K-quants moves by 0.02 to 0.12 between passes of one node
and of several."""

PASSES = 12
"""Forward passes of the proof."""

SIZE = TOKENS + 8
"""Tokens of its cache."""

UNRETURNING = (
    "Taking a guess back would change this model's text here, so it decodes plainly. Load it with --kv-type f16, or use "
    "another file of the model."
)
UNLIKE = (
    "Checking several guesses at once would change this model's text on llama.cpp, so it decodes plainly. Use another file of "
    "it, or its safetensors folder."
)
RECURRENT = "This model is recurrent or hybrid and cannot branch, so methods draft chains, one guess after the other."
CHAINS_ONLY = "Branching drafts would change this model's text here, so methods draft chains, one guess after the other."


def prove(session: LlamaSession | LlamaHybridSession, text: Sequence[int], tick: Callable[[], None]) -> Capabilities:
    """Find whether this model verifies trees, else chains, else nothing, in an empty session of SIZE tokens."""
    proof = _Proof(session, text, tick)
    if bool(proof.reference.isnan().any()):
        return _plain(NOT_NUMBERS)
    if not proof.control <= TOLERANCE:
        return _plain(UNLIKE)
    if not attempt(proof.chains, session):
        return _plain(UNRETURNING)
    if isinstance(session, LlamaHybridSession):
        return Capabilities(tree=False, reasons={"tree": RECURRENT})
    session.rewind(PREFIX)
    if not attempt(proof.trees, session):
        return Capabilities(tree=False, reasons={"tree": CHAINS_ONLY})
    return Capabilities()


def _plain(reason: str) -> Capabilities:
    return Capabilities(tree=False, chain=False, reasons={"tree": reason, "chain": reason})


class _Proof(SessionProof):
    """The proof of a session on a text, which leaves the prefix in it; the arguments are those of `prove`."""

    def __init__(self, session: LlamaSession | LlamaHybridSession, text: Sequence[int], tick: Callable[[], None]) -> None:
        super().__init__(text, PREFIX, tick)
        self.control = 0.0
        """Difference of the paths' logits from those in passes of another size."""
        paths: list[Tensor] = []
        for path in self.paths:
            session.rewind(0)
            line = self.prefix + path
            # Some graphs give a pass's first rows, whichever are asked for.
            whole = self.evaluate(session, line, range(ROOT, len(line) - 1), rows=range(PREFIX, len(line)))
            session.rewind(0)
            session.align(self.prefix)
            session.prefill(self.prefix)
            paths.append(self.chain(session, path))
            self.control = max(self.control, difference(whole, paths[-1]))
        session.rewind(PREFIX)
        self.reference = torch.stack(paths)
        self.limit = min(TOLERANCE, max(LEAST_FAULT, CONTROLS * self.control))


def states_work(session: LlamaSession | LlamaHybridSession, text: Sequence[int], width: int, tree: bool) -> bool:
    """Whether the states of a path through the tree, or of a chain behind a prefix, are those of the same tokens as a
    plain chain. The session is empty, of SIZE tokens, with every tap there is; `width` is that of a state."""
    proof = SessionProof(text, PREFIX, lambda: None)

    def works() -> bool:
        session.prefill(proof.prefix + proof.paths[1])
        reference = session.states(0, session.length).clone()
        session.rewind(0)
        session.prefill(proof.prefix)
        states = proof.states(session, tree)
        count = states.shape[1] // width
        pairs = zip(states.chunk(count, 1), reference.chunk(count, 1), strict=True)
        return all(alike(*pair, TOLERANCE) for pair in pairs)

    return attempt(works)
