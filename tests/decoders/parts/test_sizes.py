"""How many nodes of a draft are verified, by curves that were recorded: nothing is timed here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from specchat.backends.info import MOST_NODES, least_share, plain_passes
from specchat.decoders.base import Context
from specchat.decoders.parts.sizes import Sizes
from specchat.decoders.tree import Tree

from ...fakes.models.toy import ToyModel, drafting

Q8_0 = ((1, 20.0), (2, 52.0), (4, 74.0), (8, 76.0), (16, 110.0))
Q4_0 = ((1, 10.0), (2, 14.0), (4, 16.0), (8, 27.0), (16, 44.0))
DIPPED = ((1, 10.0), (4, 18.0), (6, 24.0), (8, 19.0), (16, 60.0))


def on(curve: tuple[tuple[int, float], ...], tokens: Sequence[int] = (1, 2, 3)) -> Context:
    model = ToyModel(0)
    model.info = replace(model.info, pass_seconds=curve)
    return replace(drafting(list(tokens)), model=model)


def line(*chances: float) -> Tree:
    """A chain in which each token is so probable if those before it are right."""
    tree = Tree.chain(3, range(10, 10 + len(chances)))
    tree.reached = [1.0]
    for chance in chances:
        tree.reached.append(tree.reached[-1] * chance)
    return tree


def test_costs_lie_on_lines_between_the_sizes_that_were_measured() -> None:
    costs = plain_passes(Q8_0)
    assert [round(costs[n], 2) for n in (0, 1, 2, 3, 4, 6, 8, 12, 16)] == [1, 1, 2.6, 3.15, 3.7, 3.75, 3.8, 4.65, 5.5]
    assert costs[32] == pytest.approx(5.5 + 16 * 1.7 / 8), "beyond them it goes on"
    assert len(costs) == MOST_NODES + 1
    assert plain_passes(DIPPED)[8] < plain_passes(DIPPED)[6], "what dips stays so"
    assert set(plain_passes(())) == set(plain_passes(((1, 0.02),))) == {1.0}
    assert least_share(Q8_0) == pytest.approx(0.2125, abs=0.01)
    assert least_share(()) == 0


def test_a_copy_is_drafted_far_where_two_nodes_cost_much_and_a_doubtful_guess_not_at_all() -> None:
    copy, doubtful = line(*[0.95] * 15), line(0.6, 0.5, 0.5)
    assert len(Sizes().cut(copy, on(Q8_0))) == 16
    sizes = Sizes()
    assert len(sizes.cut(doubtful, on(Q8_0))) == 1
    assert sizes.declined == (2, 2.6)
    assert len(Sizes().cut(doubtful, on(Q4_0))) == 4
    assert len(Sizes().cut(doubtful, on(()))) == 4, "where costs are not known everything is tried"


def test_a_size_that_is_dearer_than_a_larger_one_is_taken_as_that() -> None:
    tree = line(0.9, 0.9, 0.9, 0.9, 0.9, 0.4, 0.3, 0.3)
    assert len(Sizes().cut(tree, on(DIPPED))) == 8


def test_of_a_tree_the_most_probable_nodes_are_kept_with_their_parents() -> None:
    tree = Tree([3, 5, 6, 7, 8, 9], [-1, 0, 0, 1, 3, 2], reached=[1.0, 0.8, 0.1, 0.7, 0.6, 0.05])
    cut = Sizes().cut(tree, on(Q4_0))
    assert (cut.tokens, cut.parents, cut.reached) == ([3, 5, 7, 8], [-1, 0, 1, 2], [1.0, 0.8, 0.7, 0.6])
    assert cut.as_drafted(range(4)) == (tree, [0, 1, 3, 4])


def test_a_draft_that_says_nothing_of_its_chances_stays_whole() -> None:
    tree = Tree.chain(3, [1, 2, 3])
    assert Sizes().cut(tree, on(Q8_0)) is tree


def test_promises_that_are_broken_are_believed_less() -> None:
    sizes, context, tree = Sizes(), on(Q4_0), line(0.75, 0.75, 0.75)
    tries = 0
    while len(cut := sizes.cut(tree, context)) > 1 and tries < 50:
        sizes.learn(cut, [0], context)
        tries += 1
    assert 0 < tries < 8
    kept = line(0.75, 0.75, 0.75)
    other = Sizes()
    for _ in range(20):
        other.learn(kept, range(4), context)
    assert other.expected(kept.reached)[-1] > Sizes().expected(kept.reached)[-1]


def test_what_was_declined_is_judged_by_how_the_text_goes_on() -> None:
    tokens = [1, 2, 3]
    context = on(Q8_0, ())
    context.tokens = tokens
    sizes, wrong = Sizes(), Sizes()
    for right in (True, False):
        judged = sizes if right else wrong
        del tokens[3:]
        for _ in range(30):
            before = len(tokens)
            tree = line(0.6, 0.6)
            assert len(judged.cut(tree, context)) == 1 or right
            tokens += [10, 11, 12, 13] if right else [99]
            judged.learn(Tree.root(3), [0], context)
            assert len(tokens) > before
    assert sizes.expected([1.0, 0.6])[-1] > 1.6 > wrong.expected([1.0, 0.6])[-1]
