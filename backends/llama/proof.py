"""What a GGUF model can do, proven at load on a real text: a five-node tree grown in two passes against its linear paths, and
rewinds.

The linear paths go through the same model as plain chains from an empty cache: what is tested is branching and going back.
Quantized weights round by the size of a pass, so the yardstick is a control: what the same tokens differ by in passes of other
sizes, without any branch or rewind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ...errors import Cancelled
from ..base import ROOT
from ..info import NOT_NUMBERS, Capabilities
from ..rounding import PARENTS, PATHS, TOKENS
from .plain import LlamaHybridSession
from .session import LlamaSession

PREFIX = 16
"""Tokens before the tree: enough of a text that the model knows what it reads."""

LEAST = 0.02
"""Least root-mean-square difference of logits, in units of their standard deviation, that is taken for a fault. A wrong mask
costs some 0.5."""
CONTROLS = 4.0
"""Times the control's difference that is taken for a fault: the paths are a few tokens, and some move more than others."""
TOLERANCE = 0.3
"""Difference that is a fault whatever the control says. Real text in K-quants moves by 0.02 to 0.12 between passes of one node
and of several."""

PASSES = 12
"""Forward passes of the proof."""

LENGTHS = (250,)
"""Tokens of text behind which rounding is measured: the steps cross the block of 256 keys that attention takes at once."""

SIZE = TOKENS + 8
"""Tokens that its cache holds."""

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
    """Find whether this model takes trees and chains.

    Args:
        session: empty, of SIZE tokens.
        text: ids of a text, PREFIX and the tree's at least.
        tick: called after each pass; may raise Cancelled.
    """
    prefix, tree = list(text[:PREFIX]), list(text[PREFIX : PREFIX + len(PARENTS)])
    one, other = ([tree[node] for node in path] for path in PATHS)

    def chain(tokens: list[int], rows: int) -> Tensor:
        """Return logits of the last rows of a pass over some tokens behind the committed ones."""
        found = session.evaluate(tokens, range(ROOT, len(tokens) - 1), range(len(tokens) - rows, len(tokens))).logits.clone()
        tick()
        return found

    wanted, control = [], 0.0
    for path in (one, other):
        session.rewind(0)
        whole = chain(prefix + path, len(path))
        session.rewind(0)
        session.align(prefix)
        session.prefill(prefix)
        wanted.append(chain(path, len(path)))
        control = max(control, difference(whole, wanted[-1]))
    if any(bool(lines.isnan().any()) for lines in wanted):
        return Capabilities(tree=False, chain=False, reasons={"tree": NOT_NUMBERS, "chain": NOT_NUMBERS})
    if not control <= TOLERANCE:
        return Capabilities(tree=False, chain=False, reasons=dict.fromkeys(("tree", "chain"), UNLIKE))
    limit = min(TOLERANCE, max(LEAST, CONTROLS * control))
    try:
        # Passes of equal shape before and after a rewind; then twice in a row a part of a draft is refused, and the text goes
        # on without one, and back to where the answer began.
        session.rewind(PREFIX)
        pairs = [(chain(other, 3), wanted[1])]
        session.commit((0,))
        pairs.append((chain([*one[1:], other[1]], 3)[:2], wanted[0][1:]))
        session.commit((0,))
        pairs.append((chain(one[2:], 1), wanted[0][2:]))
        session.rewind(PREFIX)
        pairs.append((chain(one, 3), wanted[0]))
        if any(not difference(*pair) <= limit for pair in pairs):
            raise ArithmeticError
    except Cancelled:
        raise
    except Exception:
        return Capabilities(tree=False, chain=False, reasons=dict.fromkeys(("tree", "chain"), UNRETURNING))
    if isinstance(session, LlamaHybridSession):
        return Capabilities(tree=False, reasons={"tree": RECURRENT})
    try:
        session.rewind(PREFIX)
        top = session.evaluate(tree[:3], PARENTS[:3]).logits.clone()
        tick()
        low = session.evaluate(tree[3:], PARENTS[3:]).logits.clone()
        tick()
        found = torch.cat((top, low))
        if any(not difference(found[list(path)], lines) <= limit for path, lines in zip(PATHS, wanted, strict=True)):
            raise ArithmeticError
    except Cancelled:
        raise
    except Exception:
        return Capabilities(tree=False, reasons={"tree": CHAINS_ONLY})
    return Capabilities()


def states_work(session: LlamaSession | LlamaHybridSession, text: Sequence[int], width: int, tree: bool) -> bool:
    """Whether the states of a path through the tree are those of the same tokens as a plain chain.

    Args:
        session: empty, of SIZE tokens, with every tap there is.
        text: ids of a text, PREFIX and the tree's at least.
        width: of a state.
        tree: with the branching tree; else with a chain behind a prefix.
    """
    path = PATHS[1]
    prefix, nodes = list(text[:PREFIX]), list(text[PREFIX : PREFIX + len(PARENTS)])
    line = prefix + [nodes[node] for node in path]
    try:
        session.prefill(line)
        wanted = session.states(0, len(line)).clone()
        session.rewind(0)
        session.prefill(prefix)
        if tree:
            session.evaluate(nodes, PARENTS, ())
        else:
            session.evaluate(line[PREFIX:], (ROOT, 0, 1), ())
        session.commit(path if tree else (0, 1, 2))
        found = session.states(0, len(line))
        count = found.shape[1] // width
    except Exception:
        return False
    pairs = zip(found.chunk(count, 1), wanted.chunk(count, 1), strict=True)
    return all(difference(*pair) <= TOLERANCE for pair in pairs)


def difference(found: Tensor, wanted: Tensor) -> float:
    """Return the root-mean-square difference of logits [rows, vocab], in units of their standard deviation; NaN for NaN."""
    return float((found - wanted).square().mean().sqrt() / wanted.std().clamp_min(1e-6))
