"""DSpark and DFlash 2 in every published layout: what follows each node, and whole drafts, against plain torch; refusals."""

from __future__ import annotations

import random
from collections.abc import Sequence
from heapq import heappop, heappush
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from specchat.backends import UserError
from specchat.backends.base import ROOT
from specchat.backends.heads.dflash.network import DFlashPathSession
from specchat.decoders import Conversation, Generation

from ...cases import FULL
from ...fakes.drafters.dflash_files import GROUP, KERNEL, Paths, write_dflash
from ...fakes.drafters.heads import LAYERS, load_dflash, states_of, target
from ...fakes.models.tiny import VOCAB
from .test_dflash import SLIDING, Reference

EOS = 1

LAYOUTS: dict[str, dict[str, Any]] = {
    "DSpark by DeepSpec": {"layout": "deepspec", "paths": "vanilla", "own_embeddings": True},
    "gated": {"layout": "deepspec", "paths": "gated", "taps": (-1, 2, LAYERS - 1)},
    "recurrent": {"layout": "deepspec", "paths": "rnn"},
    "DSpark by SpecForge": {"paths": "vanilla", "inner": {"projector_type": "dspark", "final_logit_softcapping": 4.0}},
    "DSpark by speculators": {"layout": "speculators", "paths": "vanilla", "drafted": 100, "own_embeddings": True},
    "recurrent, a part of the vocabulary": {"layout": "speculators", "paths": "rnn", "drafted": 100},
    "behind the anchor": {"layout": "speculators", "paths": "gated", "sample_from_anchor": False},
    "DFlash 2 by z-lab": {"paths": "dflash2"},
    "windows, both ways": {"paths": "dflash2", "layer_types": SLIDING, "sliding_window": 4},
    "scaled": {"paths": "dflash2", "inner": {"output_multiplier": 0.3, "final_logit_softcapping": 4.0}, "bias": True},
    "DFlash 2 by speculators": {
        "layout": "speculators",
        "paths": "dflash2",
        "own_embeddings": True,
        "layer_types": SLIDING,
        "sliding_window": 4,
        "sliding_window_non_causal": True,
    },
}


class PathReference(Reference):
    """The same, and what follows a path of drafted tokens."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.second = "candidate_selector.hidden_projection.weight" in self.w
        self.kind = self.given.get("markov_head_type", "")
        if not self.second:
            self.first = int(not self.given.get("sample_from_anchor", True))
        elif not self.speculators:
            self.given = {"sliding_window_non_causal": True, **self.given}

    def around(self, i: int, part: str, x: Tensor, run: Any) -> Tensor:
        if not self.second:
            return super().around(i, part, x, run)
        at = f"layers.{i}.{part}_conv"
        own = self.linear(x, f"{at}.kernel_projection").view(len(x), 2, KERNEL, -1)
        kernels = self.w[f"{at}.base_kernel"] + own.repeat_interleave(GROUP, -1)  # [rows, 2, taps, width]

        def convolve(y: Tensor, which: int) -> Tensor:
            padded = torch.cat((torch.zeros(KERNEL - 1, y.shape[1]), y))
            seen = [kernels[:, which, j] * padded[KERNEL - 1 - j :][: len(y)] for j in range(KERNEL)]
            return torch.stack(seen).sum(0)

        return convolve(run(convolve(x, 0)), 1)

    def follows(self, hidden: Tensor, path: Sequence[int]) -> Tensor:
        """Logits of what follows the pending token and some drafted ones, over the target's vocabulary [vocab].

        Args:
            hidden: the states that guess [positions, width].
            path: the pending token and the drafted ones.
        """
        d, logits = len(path) - 1, self.scores(hidden)[len(path) - 1]
        if self.second:
            at, full = "candidate_selector.", torch.full((VOCAB,), -torch.inf)
            own, ids = logits.topk(self.given["selector_top_k"])
            before, after = (self.w[f"{at}{name}_codebook"] for name in ("predecessor", "successor"))
            full[ids] = own + after[ids] @ (before[path[-1]] * self.linear(hidden[d], f"{at}hidden_projection"))
            return full
        at, rank = "markov_head.", self.given["markov_rank"]
        state = torch.zeros(rank)
        for k, token in enumerate(path):
            e = self.w[f"{at}markov_w1.weight"][token]
            if self.kind == "gated":
                e = torch.sigmoid(self.linear(torch.cat((hidden[k], e)), f"{at}gate_proj")) * e
            if self.kind == "rnn":
                gate, candidate, e = self.linear(torch.cat((state, e, hidden[k])), f"{at}joint_proj").chunk(3)
                state = torch.sigmoid(gate) * state + (1 - torch.sigmoid(gate)) * torch.tanh(candidate)
                e = torch.tanh(e)
        return self.widened(logits + self.w[f"{at}markov_w2.weight"] @ e)

    def tree(self, states: Tensor, pending: int, nodes: int, depth: int, width: int) -> set[tuple[int, ...]]:
        """The most probable paths below a token, so many of them, the chain of first guesses among them."""
        hidden = self.outputs(states, pending)
        waiting: list[tuple[float, tuple[int, ...]]] = []

        def open_(path: tuple[int, ...], log: float) -> None:
            if len(path) < min(depth, len(hidden)) and path[-1:] != (EOS,):
                logs, ids = self.follows(hidden, [pending, *path]).log_softmax(-1).topk(width)
                for more, token in zip(logs.tolist(), ids.tolist(), strict=True):
                    if more > -torch.inf:
                        heappush(waiting, (-log - more, (*path, token)))

        first: tuple[int, ...] = ()
        while len(first) < min(depth, len(hidden)) and first[-1:] != (EOS,):
            first = (*first, int(self.follows(hidden, [pending, *first]).argmax()))
        found = {first[: i + 1] for i in range(len(first))}
        open_((), 0.0)
        while waiting and len(found) < nodes:
            log, path = heappop(waiting)
            found.add(path)
            open_(path, -log)
        return found


@pytest.fixture(scope="module", params=list(LAYOUTS))
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dflash(tmp_path_factory.mktemp("paths"), **LAYOUTS[request.param])


@torch.no_grad()
def test_what_follows_each_node_is_that_of_plain_torch(folder: Path) -> None:
    head, plain, rng = load_dflash(folder), PathReference(folder), random.Random(4)
    assert (head.info.kind, head.info.title) == ("dflash", "DFlash 2" if plain.second else "DSpark")
    assert head.positions == plain.block - plain.first
    text = [rng.randrange(VOCAB) for _ in range(40)]
    states, session = states_of(text, plain.taps), head.open(64)
    assert isinstance(session, DFlashPathSession)
    for length in (1, 5, 17, 9, 39) if FULL else (1, 17, 9):
        session.rewind(min(session.length, length))
        session.extend(states[session.length : length])
        hidden = plain.outputs(states[:length], text[length])
        alone = session.guess(text[length], head.positions).logits
        torch.testing.assert_close(alone, plain.logits(states[:length], text[length]), rtol=1e-4, atol=1e-4)
        paths, found = [[text[length]]], session.begin(text[length], head.positions)
        torch.testing.assert_close(found.logits[0], plain.follows(hidden, paths[0]), rtol=1e-4, atol=1e-4)
        for _ in range(head.positions):
            session.drop(len(paths))
            parents = [i for i in range(len(paths)) if len(paths[i]) < head.positions and rng.random() < 0.7][-3:] or [0]
            tokens = [rng.randrange(VOCAB) for _ in parents]
            found = session.grow(tokens, parents)
            paths += [[*paths[parent], token] for parent, token in zip(parents, tokens, strict=True)]
            assert found.positions == tuple(length + len(path) for path in paths[-len(tokens) :])
            for row, path in enumerate(paths[-len(tokens) :]):
                torch.testing.assert_close(found.logits[row], plain.follows(hidden, path), rtol=1e-4, atol=1e-4)
            session.grow([3], [0])  # dropped again
    with pytest.raises(ValueError, match="not all among"):
        session.grow([1], [99])
    with pytest.raises(ValueError, match="not all among"):
        session.begin(1, 1) and session.grow([1], [ROOT, 1])


@torch.no_grad()
def test_a_draft_is_the_most_probable_chain_or_tree(folder: Path) -> None:
    head, plain = load_dflash(folder), PathReference(folder)
    prompt = [0, 2, *(5 + 7 * i % 200 for i in range(12))]
    for settings in ({"width": 1}, {"width": 3, "nodes": 20}, {"width": 5, "nodes": 9, "depth": 3}):
        talk = Conversation(target(), head=head, context=64)
        generation = Generation(talk, prompt, "dflash", settings={"floor": 0, **settings}, max_tokens=12)
        length = len(prompt)
        for number, step in enumerate(generation):
            tree, room = step.tree, len(prompt) + 12 - length
            if number and room > head.positions:
                states = states_of(generation.tokens[: length - 1], plain.taps)
                paths = {tuple(tree.tokens[i] for i in tree.path(node)[1:]) for node in range(1, len(tree))}
                depth, nodes = settings.get("depth", 16), settings.get("nodes", 24) - 1
                assert paths == plain.tree(states, tree.tokens[0], nodes, depth, settings["width"])
            length += len(step.tokens)
        talk.close()


NAN = torch.full((VOCAB, 12), torch.nan)
W1, W2, SELECTOR = "markov_head.markov_w1.weight", "markov_head.markov_w2.weight", "candidate_selector.hidden_projection.weight"
CODEBOOK, KERNELS = "candidate_selector.successor_codebook", "layers.1.mlp_conv.base_kernel"
UNSAID: dict[str, Any] = {"vocabulary": 300, "vocab_size": "absent"}

WRONG: dict[str, tuple[Paths, dict[str, Any], str]] = {
    "no w1": ("vanilla", {"changes": {W1: None}}, f"missing 1 tensor .* {W1}"),
    "no head": ("", {"markov_rank": 12}, f"missing 2 tensors that it needs, such as {W1}"),
    "rank": ("vanilla", {"inner": {"markov_rank": 9}}, r"markov_w1.weight has the shape \[256, 12\] instead of \[256, 9\]"),
    "no rank": ("vanilla", {"inner": {"markov_rank": "12"}}, "needs markov_rank, a whole number above 0, not 12"),
    "kind": ("vanilla", {"inner": {"markov_head_type": "lstm"}}, "markov_head_type of vanilla, gated, rnn, not lstm"),
    "gates": ("rnn", {"inner": {"markov_head_type": "gated"}}, "such as markov_head.gate_proj.weight"),
    "unread": ("gated", {"inner": {"markov_head_type": "vanilla"}}, "does not know, such as markov_head.gate_proj"),
    "nan": ("vanilla", {"changes": {W2: NAN}}, "markov_w2.weight holds numbers that are none"),
    "vocabulary": ("vanilla", {"vocabulary": 300}, "a vocabulary of 300 tokens, and target has 256"),
    "unsaid vocabulary": ("vanilla", UNSAID, r"markov_w1.weight has the shape \[300, 12\]"),
    "no selector": ("dflash2", {"changes": {SELECTOR: None}}, f"missing 1 tensor .* {SELECTOR}"),
    "candidates": ("dflash2", {"inner": {"selector_top_k": 0}}, "needs selector_top_k, a whole number above 0"),
    "no kernel": ("dflash2", {"changes": {KERNELS: None}}, f"missing 1 tensor .* {KERNELS}"),
    "kernel": ("dflash2", {"inner": {"conv_kernel_size": 3}}, r"has the shape \[2, 2, 32\] instead of \[2, 3, 32\]"),
    "groups": ("dflash2", {"inner": {"conv_group_size": 5}}, "conv_group_size of 5, which does not divide 32"),
    "codebook nan": ("dflash2", {"changes": {CODEBOOK: NAN}}, "successor_codebook holds numbers that are none"),
    "other codebooks": ("dflash2", UNSAID, r"_codebook has the shape \[300, 12\]"),
    "a part": ("dflash2", {"layout": "speculators", "drafted": 100}, "drafts a part of the vocabulary, which DFlash 2"),
    "Gemma 4": ("vanilla", {"changes": {"layers.0.layer_scalar": torch.ones(1)}}, "holds DSpark for Gemma 4"),
    "XPress": ("", {"changes": {"xpress_head.w1.weight": NAN}}, "holds XPress, which specchat cannot draft with yet"),
    "LiLiCorr": ("dflash2", {"changes": {"lilicorr.in_head.weight": NAN}}, "holds LiLiCorr, which"),
}


@pytest.mark.parametrize("case", list(WRONG))
def test_a_wrong_drafter_is_refused_in_one_sentence(case: str, tmp_path: Path) -> None:
    paths, options, words = WRONG[case]
    with pytest.raises(UserError, match=words) as caught:
        load_dflash(write_dflash(tmp_path / "drafter", paths=paths, **options))
    assert "\n" not in str(caught.value)
