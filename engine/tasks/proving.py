"""The task `prove`: a model's passes near every length that its files name, in texts that really are so long."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

from ...backends.base import ROOT, Model
from ...backends.files.verdicts import Tried
from ...backends.info import Capabilities
from ...backends.rounding import PARENTS, PATHS
from ...errors import Cancelled, UserError
from .work import Job

if TYPE_CHECKING:
    from torch import Tensor

logger = logging.getLogger("specchat.proof")

NODES = len(PARENTS)

BEYOND = 16
"""Tokens that the longer text has more than a length."""

TIMES, LEAST = 10, 1 / 30
"""Beyond a length, logits may differ by TIMES what they do before it, or by LEAST of what rounding may ever explain. More
proves nothing: half types are coarse (a window of 4,096 tokens that was ignored moved bfloat16's by 0.13, of 0.15)."""


def prove_lengths(job: Job) -> dict[str, Any]:
    """Try plain decoding, chains and trees in a text that ends at each length, and in one a little longer. Shorter lengths come
    first, and what came out is kept at once.

    Returns:
        capabilities, reasons and label as they are from now on; lengths (a row for each: see `_near`); proven (tokens); broken
        (whether what was promised failed); kept (the verdict's file; empty: there is none) and lost (it could not be written).
    """
    from torch.nn.modules.module import register_module_forward_pre_hook

    model, rows, kept = job.model, list[dict[str, Any]](), list[bool]()
    names: dict[int, list[str]] = {}
    for name, length in model.lengths.items():
        if NODES < length <= model.info.context - NODES:
            names.setdefault(length, []).append(name)
    longest = max(names, default=0) + BEYOND + NODES
    text = _text(model, longest) if names else []
    # A pass over a long text takes minutes: it ends between two layers.
    hook = register_module_forward_pre_hook(lambda *_: job.check())
    try:
        _try_states(model)
        for length in sorted(names):
            row = {"names": names[length], **_near(job, text, length)}
            rows.append(row)
            both = len(row["texts"]) == 2
            if both or row["failed"]:  # what held on one side alone is not proven
                found = Tried(length, *(row[what] if both or row[what] is False else None for what in Tried._fields[1:]))
                for name in names[length]:
                    kept.append(model.verdict is not None and model.verdict.keep(name, found))
    finally:
        hook.remove()
    able, verdict = model.info.capabilities, model.verdict
    after = able.settled(verdict, model.lengths) if verdict is not None and all(kept) else able
    open = [row["length"] for row in rows if row["untried"] or row["unclear"] or "plain" in row["failed"]]
    return {
        "capabilities": {what: getattr(after, what) for what in ("tree", "chain", "layers", "states", "reach")},
        "reasons": dict(after.reasons),
        "label": after.identical,
        "lengths": rows,
        "proven": min([model.info.context, *open, *([] if after.reach is None else [after.reach])]),
        "broken": any(_promised(able, what, tokens) for row in rows for what, tokens in row["failed"].items()),
        "kept": str(verdict.path) if kept and all(kept) and verdict is not None else "",
        "lost": not all(kept),
    }


def _promised(able: Capabilities, what: str, tokens: int) -> bool:
    return what == "plain" or able.reach is None or tokens <= able.reach


def _text(model: Model, tokens: int) -> list[int]:
    """Ids of a text that does not repeat itself soon: Python's own manual."""
    from pydoc_data.topics import topics

    pages = "\n\n".join(topics[name] for name in sorted(topics))[: 8 * tokens]
    ids = [token for token in model.encode(pages) if token < model.info.vocabulary]
    return list(islice(cycle(ids), tokens))


def _try_states(model: Model) -> None:
    """Open a session with taps, so that the capabilities tell whether hidden states are the model's own."""
    if model.info.capabilities.states:
        try:
            model.open_session(16, (model.info.layers,)).close()
        except UserError as error:
            logger.warning("doctor: %s", error)


def _near(job: Job, text: Sequence[int], length: int) -> dict[str, Any]:
    """What holds in a text that ends at a length, and in one that ends beyond it.

    Returns:
        length; texts (tokens of those that were tried, with the tree's nodes); plain, chain and tree (whether they held in all;
        None: not tried, or unclear); failed and unclear (what was → tokens of that text); difference (the greatest of logits,
        in the unit of `Model.tolerance`); untried (why a text was not tried).
    """
    row: dict[str, Any] = {"length": length, "texts": [], "plain": None, "chain": None, "tree": None, "failed": {}}
    row |= {"unclear": {}, "difference": 0.0, "untried": ""}
    model, before = job.model, dict[str, float]()
    for size in (length - NODES, min(length + BEYOND, model.info.context - NODES)):
        try:
            found = _Passes(job, text[: size + NODES], size).found
        except UserError as error:  # memory
            row["untried"] = str(error)
            break
        row["texts"].append(size + NODES)
        for what, difference in found.items():
            row["difference"] = max(row["difference"], difference)
            if difference > model.tolerance:
                row["failed"].setdefault(what, size + NODES)
            elif difference > max(TIMES * before.get(what, difference), LEAST * model.tolerance):
                row["unclear"][what] = size + NODES
            row[what] = False if what in row["failed"] else None if what in row["unclear"] else True
        before = found
    return row


class _Passes:
    """The passes behind a prefix.

    Args:
        job: has the model.
        text: the prefix and the nodes of the tree.
        size: tokens of the prefix.
    """

    def __init__(self, job: Job, text: Sequence[int], size: int) -> None:
        self.found: dict[str, float] = {}
        """What was tried → greatest difference of logits."""
        self.job, self.size, self.prefix, self.nodes = job, size, list(text[:size]), text[size:]
        self.wanted: dict[int, Tensor] = {}
        """Node → the logits after it, one token at a time."""
        able = job.model.info.capabilities
        self.session = job.model.open_session(len(text))
        try:
            self._compare("plain", lambda: self._plain(able.tree))
            if able.chain:
                self._compare("chain", self._chain)
            if able.tree:
                self._compare("tree", self._tree)
        finally:
            self.session.close()
        if able.chain:  # whose plain passes are the same session's
            self.found["chain"] = max(self.found["chain"], self.found.get("plain", 0.0))

    def _told(self, what: str, done: int = 0) -> None:
        self.job.check()
        self.job.report({"tokens": self.size + NODES, "pass": what, "done": done})

    def _logits(self, tokens: Sequence[int], parents: Sequence[int]) -> Tensor:
        scores: Any = self.session.evaluate(tokens, parents)
        return scores.logits.float().clone()  # type: ignore[no-any-return]

    def _step(self, node: int) -> Tensor:
        logits = self._logits((self.nodes[node],), (ROOT,))
        self.session.commit((0,))
        return logits

    def _plain(self, tree: bool) -> list[tuple[Tensor, Tensor]]:
        """The nodes of the paths one at a time, and the model's own pass over the whole text."""
        session = self.session
        self._told("prompt")
        session.align(self.prefix)
        session.prefill(self.prefix, lambda done, _: self._told("prompt", done), self.job.cancelled)
        self._told("one token at a time")
        self.wanted |= {node: self._step(node) for node in PATHS[0]}
        if tree:
            session.rewind(self.size + 1)
            self.wanted |= {node: self._step(node) for node in PATHS[1][1:]}
        self._told("the model's own pass")
        # Where each length has positions of its own, a longer text's are others from its first token on.
        path = PATHS[0][:1] if session.rope is not None and session.rope.each else PATHS[0]
        own = self.job.model.own_logits([*self.prefix, *(self.nodes[node] for node in path)], len(path))
        return [] if own is None else [(self.wanted[node], own[i : i + 1]) for i, node in enumerate(path)]

    def _chain(self) -> list[tuple[Tensor, Tensor]]:
        """A chain, and one token after a part of it."""
        self._told("a chain")
        self.session.rewind(self.size)
        found = self._logits([self.nodes[node] for node in PATHS[0]], (ROOT, 0, 1))
        self.session.commit((0, 1))
        pairs = [(found[i : i + 1], self.wanted[node]) for i, node in enumerate(PATHS[0])]
        return [*pairs, (self._step(PATHS[0][2]), self.wanted[PATHS[0][2]])]

    def _tree(self) -> list[tuple[Tensor, Tensor]]:
        """The tree in two passes, and one token after its second branch."""
        self._told("a tree")
        self.session.rewind(self.size)
        pairs = []
        for first, end in ((0, 3), (3, NODES)):
            found = self._logits(self.nodes[first:end], PARENTS[first:end])
            pairs += [(found[i : i + 1], self.wanted[first + i]) for i in range(end - first)]
        self.session.commit(PATHS[1][:2])
        return [*pairs, (self._step(PATHS[1][2]), self.wanted[PATHS[1][2]])]

    def _compare(self, what: str, check: Callable[[], list[tuple[Tensor, Tensor]]]) -> None:
        """Note how far logits are apart; what fails inside the model is infinitely far."""
        try:
            pairs = check()
            if pairs:
                self.found[what] = max(_difference(*pair) for pair in pairs)
        except (Cancelled, UserError):
            raise
        except Exception as error:  # models fail in every way there is; here a failure is an answer
            logger.warning("doctor: %s: %s: %s", what, type(error).__name__, error)
            self.found[what] = float("inf")


def _difference(found: Tensor, wanted: Tensor) -> float:
    """Root-mean-square difference of logits, in units of their standard deviation; infinite for NaN."""
    wanted = wanted.to(found.device).float()
    error = float((found - wanted).square().mean().sqrt() / wanted.std().clamp_min(1e-6))
    return error if error == error else float("inf")
