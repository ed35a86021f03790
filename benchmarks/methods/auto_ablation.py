"""What each constant of `auto` does: its speed with and without, on recorded drafts in virtual time, as a Markdown table.

    python -m specchat.benchmarks.methods.auto_ablation [--backend transformers] [--prompts 7] [--tokens 64] [--only NAME]

Plain decoding answers some prompts of each family of the built-in benchmark. At every position of these answers every method
that runs a model drafts, and its draft is kept with its processor seconds and those of its pass. Then `auto` runs on them:
the record decides what is accepted, a pass takes its seconds (by its nodes and the length of the text) with 8% of noise, and
the processor time of `auto` itself is added. *cold* is the first time through all prompts with nothing known, *warm* the third
to fifth. The first row is its speed ÷ that of the best fixed method of the family, the geometric mean over families; the others
are relative to the first row: the mean over several orders of the prompts, with the lowest and the highest. Processor seconds
on one thread: other programs hardly change them.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

import torch

from specchat.app.cli.bench.items import read_items
from specchat.backends import ROOT, LoadOptions, Model, Sampling, Scores, load_model
from specchat.backends.recorded import RecordedModel
from specchat.decoders.acceptance import walk
from specchat.decoders.base import Context, Drafter, Verified
from specchat.decoders.methods.auto import auto, figures
from specchat.decoders.methods.lookup import Lookup
from specchat.decoders.methods.plain import Greedy
from specchat.decoders.parts import costs
from specchat.decoders.parts.ngrams import LONGEST
from specchat.decoders.registry import methods
from specchat.decoders.tree import Tree

GREEDY = Sampling()
NOISE = 0.08
SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24)
LENGTHS = 32, 512
"""Tokens of the texts behind which passes are measured."""

ROUNDS, WARM = 5, 2
"""Times through all prompts, and how many come before what counts as warm."""

INFINITE = 10**9
CONSTANTS: tuple[tuple[str, Any, str, Any], ...] = (
    ("MEMORY = inf: a method's rounds do not fade", figures, "MEMORY", INFINITE),
    ("RETRIED = inf: the bound forgets nothing", figures, "RETRIED", INFINITE),
    ("WIDTH = 0: no confidence bound", auto, "WIDTH", 0.0),
    ("REPEATING = inf: no such situation", auto, "REPEATING", LONGEST + 1),
    ("LONG = inf: no such situation, reading counts as drafting", auto, "LONG", INFINITE),
    ("TRIAL = 1", auto, "TRIAL", 1),
    ("ANSWER = inf: all answers are alike", auto, "ANSWER", INFINITE),
    ("SHORT = inf: passes take the same behind any text", figures, "SHORT", INFINITE),
    ("FREE = 0: fusion and tree take no part", figures, "FREE", 0.0),
    ("PAUSES = 0: a look at every step", auto, "PAUSES", (0, 0)),
    ("costs.MEMORY = inf for the pace: plain passes are not made for it", auto, "MEMORY", INFINITE),
    ("costs.MEMORY = inf: nothing fades", costs, "MEMORY", math.inf),
    ("costs.PACE = 1: the last pass", costs, "PACE", 1),
    ("costs.OUTLIER = inf", costs, "OUTLIER", math.inf),
    ("costs.SLOPE = 0", costs, "SLOPE", 0.0),
    ("costs.REDRAWN = 1", costs, "REDRAWN", 1),
)
"""What stands in for each: (row, where it is, its name, the value)."""


@dataclass(slots=True)
class Drafted:
    """A method's draft at one position."""

    tree: Tree
    seconds: float
    forward: float


@dataclass(slots=True)
class Answer:
    """One prompt, plain decoding's answer with the probability of each token, and each method's drafts by position."""

    family: str
    prompt: list[int]
    tokens: list[int]
    probs: list[float] = field(default_factory=list)
    drafts: dict[str, list[Drafted]] = field(default_factory=dict)

    def reading(self, name: str) -> float:
        """Seconds that a method took for each token of the prompt before its first draft."""
        first, second, *_ = self.drafts[name]
        return max(0.0, first.seconds - second.seconds) / len(self.prompt)


def copied(tree: Tree) -> Tree:
    """A tree that nobody else changes."""
    out = Tree(list(tree.tokens), list(tree.parents))
    out.pre_evaluated = tree.pre_evaluated
    return out


def record(model: Model, draft: Model, arms: Sequence[str], item: Any, most: int) -> Answer:
    """Decode a prompt plainly, and let every method draft at every position."""
    prompt = list(model.encode_chat(item.messages))
    answer = Answer(item.category, prompt, [])
    for name in ("greedy", *arms):
        drafter: Drafter = Greedy() if name == "greedy" else methods()[name]()
        session = model.open_session()
        session.prefill(prompt[:-1])
        text = list(prompt)
        drafts: list[Drafted] = []
        drafter.prepare(Context(text, session, GREEDY, most, frozenset(), True, (draft,), model))
        while len(text) < len(prompt) + most and (name == "greedy" or len(drafts) < len(answer.tokens)):
            begun = time.process_time()
            tree = drafter.draft(Context(text, session, GREEDY, most, frozenset(model.info.eos_ids), True, (draft,), model))
            seconds = time.process_time() - begun
            kept, begun = copied(tree), time.process_time()
            if tree.pre_evaluated:
                scores = session.evaluate(
                    tree.tokens[tree.pre_evaluated :], tree.parents[tree.pre_evaluated :], range(len(tree))
                )
            else:
                scores = session.evaluate(tree.tokens, tree.parents)
            chosen = scores.choose(GREEDY)
            forward = time.process_time() - begun
            probs = scores.probs(0) if name == "greedy" else ()
            begun = time.process_time()
            session.commit((0,))
            forward += time.process_time() - begun
            drafts.append(Drafted(kept, seconds, forward))
            drafter.learn(Verified(tree, chosen, walk(tree, chosen), scores, seconds, forward))
            text.append(chosen[0])
            if name == "greedy":
                answer.probs.append(float(probs[chosen[0]]))
            if chosen[0] in model.info.eos_ids:
                break
        drafter.close()
        session.close()
        if name == "greedy":
            answer.tokens = text[len(prompt) :]
        else:
            answer.drafts[name] = drafts
    return answer


def pass_curve(model: Model) -> Callable[[int, int], float]:
    """Seconds of a pass over n nodes behind a text of some length, between those of SIZES and LENGTHS along lines."""
    short, long = (_curve(model, length) for length in LENGTHS)

    def seconds(nodes: int, length: int) -> float:
        low, high = (between(curve, nodes) for curve in (short, long))
        return max(0.0, low + (high - low) * (length - LENGTHS[0]) / (LENGTHS[1] - LENGTHS[0]))

    return seconds


def _curve(model: Model, length: int) -> list[tuple[int, float]]:
    """(nodes, seconds) behind a text of this length."""
    session = model.open_session()
    session.prefill([1] * length)
    taken: dict[int, list[float]] = {n: [] for n in SIZES}
    for _ in range(30):
        for n in SIZES:
            for again in range(3):  # the first one behind another size may be planned anew
                begun = time.process_time()
                session.evaluate([1] * n, range(ROOT, n - 1)).choose(GREEDY)
                if again:
                    taken[n].append(time.process_time() - begun)
                session.commit(())
    session.close()
    return [(n, statistics.median(seconds)) for n, seconds in taken.items()]


def between(curve: Sequence[tuple[int, float]], nodes: int) -> float:
    """Seconds for a number of nodes on the line between the nearest ones."""
    above = next((i for i, (n, _) in enumerate(curve) if n >= nodes), len(curve) - 1)
    (a, low), (b, high) = curve[max(0, above - 1)], curve[max(1, above)]
    return low + (high - low) * (nodes - a) / (b - a)


class Recorded(Drafter):
    """A method's recorded drafts; it says afterwards what the last one took."""

    name, summary, pays = "recorded", "", ""
    now: Answer
    """The answer that is on."""

    def __init__(self, arm: str) -> None:
        super().__init__()
        self._arm, self._text, self._read = arm, (), 0
        self.spent = 0.0

    def draft(self, context: Context) -> Tree:
        answer, position = Recorded.now, len(context.tokens) - 1 - len(Recorded.now.prompt)
        if context.tokens is not self._text:
            self._text, self._read = context.tokens, 0  # type: ignore[assignment]
        unread, self._read = len(context.tokens) - self._read - 1, len(context.tokens)
        found = answer.drafts[self._arm][min(max(position + 1, 1), len(answer.drafts[self._arm]) - 1)]
        Virtual.spent += found.seconds + (0 if self._arm == "early-exit" else unread * answer.reading(self._arm))
        Virtual.forward = found.forward
        return copied(found.tree)


class Probable:
    """A record's scores with the probabilities that were recorded; to read one takes what the softmax of a row takes."""

    row = torch.zeros(1)
    """Logits of the target's vocabulary."""

    def __init__(self, scores: Scores) -> None:
        self._scores = scores

    def __getattr__(self, name: str) -> Any:
        return getattr(self._scores, name)

    def probs(self, row: int) -> Any:
        """The probability of the recorded token, by its id."""
        Probable.row.softmax(-1).cpu().numpy()
        answer = Recorded.now
        at = self._scores.positions[row] - len(answer.prompt)
        return {answer.tokens[at]: answer.probs[at]} if at < len(answer.tokens) else defaultdict(lambda: 1.0)


class Virtual:
    """What the recorded draft of this step took, and its pass."""

    spent = forward = 0.0


def run(
    drafter: Drafter, answer: Answer, model: Model, draft: Model, cost: Callable[[int, int], float], chance: random.Random
) -> float:
    """Seconds that a drafter takes for a recorded answer."""
    Recorded.now, total = answer, 0.0
    session = RecordedModel([(answer.prompt, answer.tokens)], context=1 << 16).open_session()
    session.prefill(answer.prompt)
    beside = (draft,)
    text, end = [*answer.prompt, answer.tokens[0]], len(answer.prompt) + len(answer.tokens)
    while len(text) < end:
        Virtual.spent = Virtual.forward = 0.0
        begun = time.process_time()
        tree = drafter.draft(Context(text, session, GREEDY, end - len(text), frozenset(), True, beside, model))
        drafting = time.process_time() - begun + Virtual.spent * chance.lognormvariate(0, NOISE)
        forward = (Virtual.forward or cost(len(tree), len(text))) * chance.lognormvariate(0, NOISE)
        scores: Any = Probable(session.evaluate(tree.tokens, tree.parents))
        chosen = scores.choose(GREEDY)
        path = walk(tree, chosen)
        session.commit(path)
        text += [tree.tokens[node] for node in path[1:]] + [chosen[path[-1]]]
        begun = time.process_time()
        drafter.learn(Verified(tree, chosen, path, scores, drafting, forward))
        total += drafting + forward + time.process_time() - begun
    return total


@contextmanager
def instead(where: Any, name: str, value: Any) -> Iterator[None]:
    """Another value in the place of a constant."""
    before = getattr(where, name)
    setattr(where, name, value)
    try:
        yield
    finally:
        setattr(where, name, before)


def speeds(answers: Sequence[Answer], seconds: dict[int, float]) -> dict[str, float]:
    """Tokens per second by family."""
    tokens: dict[str, int] = defaultdict(int)
    taken: dict[str, float] = defaultdict(float)
    for i, answer in enumerate(answers):
        tokens[answer.family] += len(answer.tokens) - 1
        taken[answer.family] += seconds[i]
    return {family: tokens[family] / taken[family] for family in tokens}


def auto_speeds(answers: Sequence[Answer], order: int, *rest: Any) -> tuple[dict[str, float], dict[str, float]]:
    """Speeds of `auto` with nothing known: cold and warm."""
    model, draft, cost = rest
    figures._known = WeakKeyDictionary()
    chance, drafter = random.Random(order), auto.Auto()
    cold: dict[int, float] = {}
    warm: dict[int, float] = defaultdict(float)
    for turn in range(ROUNDS):
        numbers = list(range(len(answers)))
        chance.shuffle(numbers)
        for i in numbers:
            taken = run(drafter, answers[i], model, draft, cost, chance)
            if turn == 0:
                cold[i] = taken
            elif turn >= WARM:
                warm[i] += taken / (ROUNDS - WARM)
    return speeds(answers, cold), speeds(answers, warm)


def mean(found: dict[str, float], best: dict[str, float]) -> float:
    """Geometric mean over families of the speed ÷ that of the best fixed method."""
    return math.exp(statistics.fmean(math.log(found[family] / best[family]) for family in best))


def main() -> None:
    """Record, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="transformers", choices=("transformers", "llama.cpp"))
    parser.add_argument("--prompts", type=int, default=7, help="of each family")
    parser.add_argument("--tokens", type=int, default=64, help="most of an answer")
    parser.add_argument("--orders", type=int, default=8)
    parser.add_argument("--only", action="append", help="only constants whose row begins with this (may be repeated)")
    options = parser.parse_args()
    model = load_model("builtin", LoadOptions(backend=options.backend, device="cpu", threads=1))
    draft = load_model("builtin-draft", LoadOptions(device="cpu", threads=1))
    arms = ["draft", "tree", *(["pard"] if draft.info.pard_token is not None else [])]
    if model.info.capabilities.layers:
        arms.append("early-exit")
    items = read_items(None, options.prompts).items
    answers = [record(model, draft, arms, item, options.tokens) for item in items]
    answers = [answer for answer in answers if len(answer.tokens) > 2]
    cost = pass_curve(model)
    rest = (model, draft, cost)
    Probable.row = torch.randn(model.info.vocabulary)

    recorded = {name: (lambda name=name: Recorded(name)) for name in arms}
    vars(auto)["methods"] = lambda: recorded
    vars(auto)["time"] = SimpleNamespace(perf_counter=time.process_time)
    fixed: dict[str, dict[str, float]] = {}
    for name in ("greedy", "lookup", *arms):
        taken: dict[int, float] = defaultdict(float)
        for order in range(options.orders):
            chance = random.Random(order)
            drafter = {"greedy": Greedy, "lookup": Lookup}.get(name, lambda name=name: Recorded(name))()
            for i, answer in enumerate(answers):
                taken[i] += run(drafter, answer, *rest, chance) / options.orders
        fixed[name] = speeds(answers, taken)
    best = {family: max(found[family] for found in fixed.values()) for family in fixed["greedy"]}
    print(f"{options.backend}: {len(answers)} answers, {sum(len(answer.tokens) for answer in answers)} tokens")
    print("| tokens/s |", " | ".join(best), "|\n|---|" + "---|" * len(best))
    for name, found in fixed.items():
        print(f"| {name} |", " | ".join(f"{found[family]:.0f}" for family in best), "|")

    plain = [auto_speeds(answers, order, *rest) for order in range(options.orders)]
    for i, when in enumerate(("cold", "warm")):
        row = {family: statistics.fmean(found[i][family] for found in plain) for family in best}
        print(f"| auto, {when} ÷ best |", " | ".join(f"{row[family] / best[family]:.2f}" for family in best), "|")
    base = [[mean(found[i], best) for found in plain] for i in (0, 1)]
    print("\n| without | cold | warm |\n|---|---|---|")
    print("| as it is |", " | ".join(f"{statistics.fmean(values):.3f}" for values in base), "|")
    for row_name, where, name, value in CONSTANTS:
        if options.only and not any(row_name.startswith(only) for only in options.only):
            continue
        with instead(where, name, value):
            changed = [auto_speeds(answers, order, *rest) for order in range(options.orders)]
        cells = []
        for i in (0, 1):
            ratios = [mean(each[i], best) / before for each, before in zip(changed, base[i], strict=True)]
            cells.append(f"{statistics.fmean(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})")
        print(f"| {row_name} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
