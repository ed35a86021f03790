"""What a GGUF model can do, proven at load: a five-node tree grown in two passes against its linear paths, and rewinds.

The linear paths go through the same model as plain chains from an empty cache: what is tested is branching and going back.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from ...errors import Cancelled
from ..base import ROOT
from ..files.gguf_file import Header
from ..info import NOT_NUMBERS, Capabilities
from ..rounding import PARENTS, PATHS, PREFIX, TOKENS, example, movement
from ..rounding import PASSES as ROUNDING_PASSES
from .plain import LlamaHybridSession
from .session import LlamaSession

TOLERANCE = 0.1
"""Greatest root-mean-square difference of logits, in units of their standard deviation. A wrong mask costs some 0.5; quantized
weights differ by some 0.01 between passes of different sizes."""

PASSES = 9 + ROUNDING_PASSES
"""Forward passes of the proof."""

SIZE = TOKENS + 8
"""Tokens that its cache holds."""

UNRETURNING = "Rewinding its cache did not give this model's logits, so it supports plain decoding only."
RECURRENT = "This model is recurrent or hybrid: its state cannot branch, so methods draft chains only."


LENGTH = re.compile(r"sliding_window$|original_context_length$|chunk|block_size|window_size|indexer\.top_k$")


def named_lengths(header: Header) -> dict[str, int]:
    """Every length in a file's metadata from which on its model may read a text otherwise, under the name it has there."""
    prefix = f"{header.architecture}."
    return {
        name: value
        for name, value in header.metadata.items()
        if type(value) is int and value > 0 and name.startswith(prefix) and LENGTH.search(name)
    }


def prove(session: LlamaSession | LlamaHybridSession, vocabulary: int, tick: Callable[[], None]) -> Capabilities:
    """Find whether this model takes trees and chains.

    Args:
        session: empty, of SIZE tokens.
        vocabulary: how many token ids there are.
        tick: told after each pass; may raise Cancelled.
    """
    ids = example(vocabulary, PREFIX + len(PARENTS))
    prefix, tree = ids[:PREFIX], ids[PREFIX:]

    def chain(tokens: list[int], rows: int) -> Tensor:
        """Logits of the last rows of tokens in one pass behind the committed ones."""
        found = session.evaluate(tokens, range(ROOT, len(tokens) - 1), range(len(tokens) - rows, len(tokens))).logits.clone()
        tick()
        return found

    wanted = []
    for path in PATHS:
        session.rewind(0)
        wanted.append(chain(prefix + [tree[node] for node in path], len(path)))
    if any(bool(lines.isnan().any()) for lines in wanted):
        return Capabilities(tree=False, chain=False, reasons={"tree": NOT_NUMBERS, "chain": NOT_NUMBERS})
    one, other = ([tree[node] for node in path] for path in PATHS)
    try:
        session.rewind(0)
        session.align(prefix)
        session.prefill(prefix)
        # Twice in a row a part of a draft is refused, then the text goes on without one, and back to where the answer began.
        pairs = []
        for draft, right in ((other, wanted[1]), ([*one[1:], other[1]], wanted[0][1:]), (one[2:], wanted[0][2:])):
            pairs.append((chain(draft, len(draft))[: len(right)], right))
            session.commit((0,))
        session.rewind(PREFIX)
        pairs.append((chain(one, 3), wanted[0]))
        if any(differs(*pair) for pair in pairs):
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
        if any(differs(found[list(path)], lines) for path, lines in zip(PATHS, wanted, strict=True)):
            raise ArithmeticError
    except Cancelled:
        raise
    except Exception:
        why = "A branching tree did not give this model the same logits as its paths, so methods draft chains only."
        return Capabilities(tree=False, reasons={"tree": why})
    return Capabilities()


def states_work(session: LlamaSession | LlamaHybridSession, vocabulary: int, width: int, tree: bool) -> bool:
    """Whether the states of a path through the tree are those of the same tokens as a plain chain.

    Args:
        session: empty, of SIZE tokens, with every tap there is.
        vocabulary: how many token ids there are.
        width: of a state.
        tree: with the branching tree; else with a chain behind a prefix.
    """
    ids, path = example(vocabulary, PREFIX + len(PARENTS)), PATHS[1]
    prefix, nodes = ids[:PREFIX], ids[PREFIX:]
    text = prefix + [nodes[node] for node in path]
    try:
        session.prefill(text)
        wanted = session.states(0, len(text)).clone()
        session.rewind(0)
        session.prefill(prefix)
        if tree:
            session.evaluate(nodes, PARENTS, ())
        else:
            session.evaluate(text[PREFIX:], (ROOT, 0, 1), ())
        session.commit(path if tree else (0, 1, 2))
        found = session.states(0, len(text))
        count = found.shape[1] // width
    except Exception:
        return False
    return not any(differs(*pair) for pair in zip(found.chunk(count, 1), wanted.chunk(count, 1), strict=True))


def rounded(
    session: LlamaSession | LlamaHybridSession,
    found: Capabilities,
    vocabulary: int,
    tick: Callable[[], None],
    *,
    parameters: int,
    cpu: bool,
    alike: bool,
) -> Capabilities:
    """What `prove` found, with how far logits move between passes of one node and of many (see `rounding.movement`).

    Args:
        session, vocabulary, tick: as `prove`.
        found: what that found.
        parameters: of the model.
        cpu: whether it runs on the CPU.
        alike: attention treats a row the same in every pass (flash attention), so that bits can be claimed.
    """
    if not found.chain:
        return found
    moved = movement(session, example(vocabulary, TOKENS), tick, tree=found.tree, parameters=parameters, cpu=cpu)
    exact = alike and moved.proven
    return replace(found, exact=exact, near_tie=moved.near_tie)


def differs(found: Tensor, wanted: Tensor) -> bool:
    """Whether logits [rows, vocab] are further apart than rounding explains."""
    error = (found - wanted).square().mean().sqrt() / wanted.std().clamp_min(1e-6)
    return not bool(error <= TOLERANCE)
