"""Every published layout of a trained drafter, as a table: what ours guesses is what plain torch makes of the same files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from specchat.backends import ROOT, UserError
from specchat.backends.heads.base import Head
from specchat.backends.heads.mtp.load import load_mtp
from specchat.backends.heads.sessions import HeadSession
from specchat.backends.llama.drafters.load import load_gguf_mtp
from specchat.decoders import Conversation, Generation

from ...cases import FULL
from ...fakes.drafters import gguf_heads
from ...fakes.drafters.dflash_files import write_dflash
from ...fakes.drafters.head_files import WIDTH, load_weights, write_head, write_medusa
from ...fakes.drafters.heads import LAYERS, load, target, target_folder
from ...fakes.drafters.mtp_files import FAMILIES, REFERENCED, Family, mtp_folder, mtp_target
from ...fakes.drafters.mtp_files import LAYERS as MTP_LAYERS
from ...fakes.models.llama_tiny import VOCAB as LLAMA_VOCAB
from ...fakes.models.llama_tiny import needs_llama
from ...fakes.models.tiny import VOCAB, generated, network
from .plain_torch import BlockReference, EagleReference, MtpReference, PathReference

EAGLE: dict[str, dict[str, Any]] = {
    "eagle1 with a bias, its own embeddings and two layers": {
        "style": "eagle1", "bias": True, "layers": 2, "own_embeddings": True, "dtype": torch.bfloat16
    },
    "eagle3": {"drafted": 100},
    "eagle3 with the target's LM head": {"own_head": False, "dtype": torch.bfloat16},
    "eagle3 with explicit taps": {"taps": (1, 3, 5), "norm_before_fc": True, "norm_output": True, "rope_theta": 500.0},
    "eagle3 of another width": {
        "hidden": 48, "own_embeddings": True, "target_hidden_size": 32, "fc_norm": True, "bias": True
    },
    "eagle3 with two taps": {"taps": (0, LAYERS), "drafted": 64, "norm_before_residual": True},
    "speculators with two layers": {
        "style": "speculators", "layers": 2, "norm_before_residual": False, "norm_before_fc": True, "dtype": torch.float16
    },
    "deepspec": {"style": "deepspec", "taps": (0, 1, 2, 3, 4), "own_embeddings": True},
}  # fmt: skip
SLIDING = ["sliding_attention", "full_attention"]
DFLASH: dict[str, dict[str, Any]] = {
    "z-lab in bfloat16": {"dtype": torch.bfloat16, "heads": 2, "taps": (0, 2, LAYERS - 1)},
    "one layer, no taps named": {"layers": 1, "changes": {"fc.weight": torch.eye(WIDTH)}, "taps": None},
    "two layers, no taps named": {"taps": None, "bias": True},
    "windows": {"layer_types": SLIDING, "sliding_window": 9},
    "windows from dflash_config": {"inner": {"use_swa": True, "swa_window_size": 9, "causal": False}},
    "causal": {"is_causal": True},
    "scaled": {"inner": {"input_embedding_scale": 3.0, "output_multiplier": 0.3, "final_logit_softcapping": 4.0}},
    "of another width": {"hidden": 48, "own_embeddings": True, "target_hidden_size": WIDTH},
    "speculators, no taps named": {
        "layout": "speculators",
        "taps": None,
        "changes": {"fc.weight": torch.randn(WIDTH, 3 * WIDTH, generator=torch.Generator().manual_seed(5))},
    },
    "speculators with windows both ways": {
        "layout": "speculators",
        "layer_types": SLIDING,
        "sliding_window": 4,
        "sliding_window_non_causal": True,
        "sample_from_anchor": True,
        "drafted": 100,
    },
    "deepspec": {"layout": "deepspec", "own_embeddings": True, "taps": (-1, 2, LAYERS - 1)},
}
STEPPING: dict[str, dict[str, Any]] = {
    "DSpark by DeepSpec": {"layout": "deepspec", "paths": "vanilla", "own_embeddings": True},
    "DSpark by SpecForge": {"paths": "vanilla", "inner": {"projector_type": "dspark", "final_logit_softcapping": 4.0}},
    "DSpark by speculators, behind the anchor": {
        "layout": "speculators", "paths": "vanilla", "drafted": 100, "own_embeddings": True, "sample_from_anchor": False
    },
    "DFlash 2 by z-lab": {"paths": "dflash2", "inner": {"output_multiplier": 0.3, "final_logit_softcapping": 4}, "bias": True},
    "DFlash 2 by speculators": {
        "layout": "speculators",
        "paths": "dflash2",
        "own_embeddings": True,
        "layer_types": SLIDING,
        "sliding_window": 4,
        "sliding_window_non_causal": True,
    },
}  # fmt: skip
"""DSpark and DFlash 2, whose guesses go by the token before."""
MEDUSA: dict[str, dict[str, Any]] = {
    "old": {"heads": 3}, "prefixed": {"prefix": "medusa_heads.", "heads": 5, "dtype": torch.bfloat16},
    "two blocks": {"heads": 2, "blocks": 2}, "no blocks": {"heads": 3, "blocks": 0},
}  # fmt: skip
LLAMA_EAGLE: dict[str, dict[str, Any]] = {
    "the target's LM head": {"own_head": False, "dtype": torch.bfloat16},
    "all options": {"taps": (1, 3, 5), "norm_before_fc": True, "norm_before_residual": True, "rope_theta": 500.0},
    "another width": {"hidden": 32, "own_embeddings": True, "drafted": 64},
    "speculators": {"style": "speculators", "drafted": 512},
}
LLAMA_DFLASH: dict[str, dict[str, Any]] = {
    "one layer and a long block": {"layers": 1, "taps": (0, 1, 4), "block": 16},
    "its own embeddings": {"own_embeddings": True, "is_causal": True},
    "windows": {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 24, "is_causal": False},
    "scaled": {"inner": {"output_multiplier": 0.5, "final_logit_softcapping": 4.0, "input_embedding_scale": 2.0}},
    "speculators": {"layout": "speculators", "drafted": 512},
}
SECOND: dict[str, Any] = {"paths": "dflash2", "candidates": 7}
LLAMA_STEPPING: dict[str, dict[str, Any]] = {
    "DSpark, a part of the vocabulary": {"paths": "vanilla", "layout": "speculators", "drafted": 512},
    "DSpark behind the anchor": {"paths": "vanilla", "sample_from_anchor": False},
    "DFlash 2": SECOND | {"inner": {"output_multiplier": 0.3, "final_logit_softcapping": 4.0}},
}
"""Those that the recipe writes as GGUF files."""
Made = tuple[Head, Any]
"""A drafter, and its reference."""


def eagle(folder: Path, **options: Any) -> Made:
    return load(write_head(folder, **options)), EagleReference(folder)


def dflash(folder: Path, **options: Any) -> Made:
    reference: type[BlockReference] = PathReference if "paths" in options else BlockReference
    return load(write_dflash(folder, **options)), reference(folder)


def mtp(_: Path, family: Family) -> Made:
    head = load_mtp(mtp_target(family))
    assert head is not None
    return head, MtpReference(family)


class TorchReference:
    """The torch drafter behind a GGUF file, in a new session for each text; the target's states are random."""

    vocabulary = LLAMA_VOCAB

    def __init__(self, head: Any, width: int = gguf_heads.WIDTH) -> None:
        self.head = head
        self.taps = head.info.taps
        self.width = width
        self.first = 0
        self.block = getattr(head, "positions", 0)

    def states(self, text: Sequence[int]) -> Tensor:
        return torch.randn(len(text), len(self.taps) * self.width, generator=torch.Generator().manual_seed(2))

    def after(self, text: Sequence[int], states: Tensor, path: Sequence[int]) -> Tensor:
        session: Any = self.head.open(64)
        scores: Any
        if pairs := isinstance(session, HeadSession):
            scores = session.extend(text[1:], states)
        else:
            session.extend(states)
            scores = session.begin(text[-1], self.block)
        for node, token in enumerate(path):
            scores = session.grow([token], [node - pairs])
        row: Tensor = scores.logits[-1]
        return row

    def logits(self, states: Tensor, token: int) -> Tensor:
        session = self.head.open(64)
        session.extend(states)
        logits: Tensor = session.guess(token, self.block).logits
        return logits


def in_gguf(folder: Path, write: Callable[..., Path], **options: Any) -> Made:
    folder = write(folder, **options)
    ours, theirs = gguf_heads.load_head(gguf_heads.exported(folder, "F32")), gguf_heads.load_head(folder)
    assert (ours.info.taps, ours.info.title, ours.info.dtype) == (theirs.info.taps, theirs.info.title, "all F32")
    return ours, TorchReference(theirs)


def glm(_: Path) -> Made:
    ours, theirs = load_gguf_mtp(gguf_heads.glm_llama()), load_mtp(mtp_target("glm4-moe"))
    assert ours is not None
    reference = TorchReference(theirs, WIDTH)
    reference.vocabulary = VOCAB
    return ours, reference


LLAMA_PATHS: dict[str, Callable[[Path], Made]] = {
    **{
        f"GGUF, EAGLE {name}": partial(in_gguf, write=gguf_heads.write_eagle, **options)
        for name, options in LLAMA_EAGLE.items()
    },
    **{
        f"GGUF, {name}": partial(in_gguf, write=gguf_heads.write_blocks, rank=32, **options)
        for name, options in LLAMA_STEPPING.items()
    },
    "GGUF, MTP": glm,
}
LLAMA_BLOCKS: dict[str, Callable[[Path], Made]] = {
    f"GGUF, {name}": partial(in_gguf, write=gguf_heads.write_blocks, **options) for name, options in LLAMA_DFLASH.items()
}
PATHS: dict[str, Callable[[Path], Made]] = {
    **{f"EAGLE {name}": partial(eagle, **options) for name, options in EAGLE.items()},
    **{name: partial(dflash, **options) for name, options in STEPPING.items()},
    **{f"MTP {family}": partial(mtp, family=family) for family in FAMILIES},
}
BLOCKS: dict[str, Callable[[Path], Made]] = {name: partial(dflash, **options) for name, options in (DFLASH | STEPPING).items()}


APART = 1e-3
"""Greatest root-mean-square difference of logits on llama.cpp from torch's, in units of their standard deviation. Those of
unlike heads are 1.4 apart; random weights make more of rounding than trained ones (2.3e-4 on an AMD EPYC)."""


def apart(logits: Tensor, expected: Tensor) -> None:
    """Compare logits of llama.cpp."""
    drafted = expected.isfinite()
    assert torch.equal(logits.isfinite(), drafted)
    a, b = logits[drafted], expected[drafted]
    assert float((a - b).square().mean().sqrt() / b.std()) < APART


def near(logits: Tensor, expected: Tensor) -> None:
    spread = expected[expected.isfinite()].std()
    torch.testing.assert_close(logits, expected, rtol=1e-3, atol=1e-3 + 1e-4 * float(spread))


@pytest.mark.parametrize("layout", [*PATHS, *(pytest.param(name, marks=needs_llama) for name in LLAMA_PATHS)])
@torch.no_grad()
def test_scores_along_a_text_and_of_every_node_of_a_tree(layout: str, tmp_path: Path) -> None:
    """Pieces of several lengths, each behind the nodes of the tree before, which leave nothing behind; and back again."""
    (head, plain), rng = (PATHS | LLAMA_PATHS)[layout](tmp_path / "head"), Random(layout)
    assert list(head.info.taps) == list(plain.taps)
    letters, same = range(8, getattr(plain, "vocabulary", VOCAB)), apart if layout in LLAMA_PATHS else near
    text = rng.choices(letters, k=40)
    states, session = plain.states(text), head.open(64)
    pairs = isinstance(session, HeadSession)  # its nodes hang below the text, those of a block below the pending token
    depth = 5 if pairs else head.positions - 1  # type: ignore[attr-defined]
    for length in (2, 3, 5, 9, 16, 7, 17, 40) if FULL else (2, 16, 7):
        session.rewind(min(session.length, length - 1 - pairs))
        kept_rows = session.length
        if pairs:
            row = session.extend(text[kept_rows + 1 : length], states[kept_rows : length - 1]).logits[-1]
        else:
            session.extend(states[kept_rows : length - 1])
            row = session.begin(text[length - 1], head.positions).logits[0]  # type: ignore[attr-defined]
        same(row, plain.after(text[:length], states[: length - 1], []))
        paths: list[list[int]] = [] if pairs else [[]]
        for _ in range(depth):
            open_ = [node for node, path in enumerate(paths) if len(path) < depth]
            parents = rng.choices([*([ROOT] if pairs else []), *open_[-4:]], k=rng.randint(1, 3))
            tokens = rng.choices(letters, k=len(parents))
            scores = session.grow(tokens, parents)
            paths += [
                [*(paths[parent] if parent != ROOT else []), token] for parent, token in zip(parents, tokens, strict=True)
            ]
            new = paths[-len(tokens) :]
            assert scores.positions == tuple(length + len(path) for path in new)
            for row, path in zip(scores.logits, new, strict=True):
                same(row, plain.after(text[:length], states[: length - 1], path))
            if rng.random() < 0.3 and len(paths) > 1:
                session.drop(len(paths) - 1)
                del paths[-1]
        assert session.length == length - 1


@pytest.mark.parametrize("layout", [*BLOCKS, *(pytest.param(name, marks=needs_llama) for name in LLAMA_BLOCKS)])
@torch.no_grad()
def test_guesses_of_a_block(layout: str, tmp_path: Path) -> None:
    (drafter, plain), rng = (BLOCKS | LLAMA_BLOCKS)[layout](tmp_path / "head"), Random(layout)
    head: Any = drafter
    assert head.positions == plain.block - plain.first
    same, text = apart if layout in LLAMA_BLOCKS else near, [rng.randrange(VOCAB) for _ in range(30)]
    states, session = plain.states(text), head.open(64)
    for length in (1, 2, 6, 8, 13, 29, 5) if FULL else (1, 8, 29, 5):
        session.rewind(min(session.length, length))
        session.extend(states[session.length : length])
        guesses = session.guess(text[length], head.positions)
        assert guesses.positions == tuple(range(length + 1, length + 1 + head.positions))
        same(guesses.logits, plain.logits(states[:length], text[length]))
        same(session.guess(text[length], 2).logits, guesses.logits[:2])


@pytest.mark.parametrize("layout", MEDUSA)
def test_guesses_of_medusa_heads(layout: str, tmp_path: Path) -> None:
    options = {"blocks": 1, **MEDUSA[layout]}
    head = load(write_medusa(tmp_path / "medusa", **options))
    assert (head.positions, head.info.taps) == (options["heads"], (LAYERS,))
    weights = {name.removeprefix("medusa_heads."): t for name, t in load_weights(tmp_path / "medusa", "medusa_lm_head").items()}
    assert head.info.parameters == sum(t.numel() for t in weights.values())
    state = torch.randn(1, WIDTH, generator=torch.Generator().manual_seed(1))
    guesses = head.guess(state, 7, head.positions)
    assert guesses.positions == tuple(range(7, 7 + head.positions))
    for i in range(head.positions):
        x = state
        for j in range(options["blocks"]):
            at = f"{i}.{j}.linear"
            x = x + F.silu(F.linear(x, weights[f"{at}.weight"].float(), weights[f"{at}.bias"].float()))
        near(guesses.logits[i : i + 1], F.linear(x, weights[f"{i}.{options['blocks']}.weight"].float()))
    near(head.guess(state, 7, 1).logits, guesses.logits[:1])
    head.close()
    with pytest.raises(UserError, match="no longer loaded"):
        head.guess(state, 7, 1)


@pytest.mark.parametrize("layout", ["DSpark by DeepSpec", "DFlash 2 by z-lab"])
@torch.no_grad()
def test_a_draft_is_the_most_probable_chain_or_tree(layout: str, tmp_path: Path) -> None:
    (drafter, plain), prompt = BLOCKS[layout](tmp_path / "head"), [0, 2, *(5 + 7 * i % 200 for i in range(12))]
    head: Any = drafter
    for settings in ({"width": 1}, {"width": 3, "nodes": 20}, {"width": 5, "nodes": 9, "depth": 3}):
        talk = Conversation(target(), head=head, context=64)
        generation = Generation(talk, prompt, "dflash", settings={"floor": 0, **settings}, max_tokens=12)
        length = len(prompt)
        for number, step in enumerate(generation):
            tree, room = step.tree, len(prompt) + 12 - length
            if number and room > head.positions:
                states = plain.states(generation.tokens[: length - 1])
                paths = {tuple(tree.tokens[i] for i in tree.path(node)[1:]) for node in range(1, len(tree))}
                depth, nodes = settings.get("depth", 16), settings.get("nodes", 24) - 1
                assert paths == plain.tree(states, tree.tokens[0], nodes, depth, settings["width"])
            length += len(step.tokens)
        talk.close()


def test_a_long_text_comes_in_by_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The size of a chunk is a constant of the module."""
    head, plain = eagle(tmp_path / "head")
    text = [3 + i % 200 for i in range(120)]
    states = plain.states(text[:-1])
    whole: Any = head.open(256).extend(text[1:], states)
    monkeypatch.setattr("specchat.backends.heads.sessions.PREFILL_CHUNK", 32)
    parts: Any = head.open(256).extend(text[1:], states)
    near(parts.logits, whole.logits)
    assert parts.positions == whole.positions == (120,)


Drafts = list[tuple[list[int], list[int]]]


@contextmanager
def watched(name: str) -> Iterator[Drafts]:
    """Record the drafts of one of transformers' generators of candidates, by the text before each."""
    from transformers.generation import candidate_generator

    drafts: Drafts = []

    class Watched(getattr(candidate_generator, name)):  # type: ignore[misc]
        def get_candidates(self, input_ids: torch.LongTensor, *args: Any, **kwargs: Any) -> Any:
            ids, logits = super().get_candidates(input_ids, *args, **kwargs)
            if logits is not None:
                drafts.append((input_ids[0].tolist(), ids[0, input_ids.shape[1] :].tolist()))
            return ids, logits

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"transformers.generation.utils.{name}", Watched)
        yield drafts


PROMPT = [0, 2, *(5 + 7 * i % 200 for i in range(12))]


@pytest.mark.parametrize("windows", [["full_attention"] * 2, SLIDING], ids=["full", "sliding"])
def test_dflash_drafts_what_transformers_own_class_drafts(windows: list[str], tmp_path: Path) -> None:
    from transformers.models.muse_glimmer_assistant import MuseGlimmerAssistantModel

    folder = write_dflash(tmp_path / "head", "transformers", layer_types=windows, sliding_window=6, seed=3)
    theirs: Any = MuseGlimmerAssistantModel.from_pretrained(folder, dtype=torch.float32)
    options = {"assistant_model": theirs.eval(), "speculation_type": "dflash", "eos_token_id": None}
    with watched("DFlashTokenCandidateGenerator") as drafts:
        generated(network(target_folder()), PROMPT, 24, **options)
    assert len(drafts) > 5
    session, plain = load(folder).open(64), BlockReference(folder)
    for text, drafted in drafts:
        session.extend(plain.states(text[:-1])[session.length :])
        guessed: Any = session.guess(text[-1], 5)
        assert guessed.logits.argmax(-1).tolist()[: len(drafted)] == drafted


@pytest.mark.parametrize("family", REFERENCED)
def test_mtp_layers_draft_what_transformers_own_generator_drafts(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    import re

    from transformers.modeling_layers import MtpModel

    drafter, plain = mtp(mtp_folder(family), family)
    head: Any = drafter
    # The published checkpoints have their MTP layers at other numbers.
    own_layers = staticmethod(lambda _: re.compile(rf"^model\.layers\.{MTP_LAYERS}\."))
    monkeypatch.setattr(MtpModel, "get_mtp_weights_regex", own_layers)
    with watched("MTPCandidateGenerator") as drafts:
        generated(plain.module, PROMPT, 24, use_mtp=True, eos_token_id=None)
    assert len(drafts) > 10
    session = head.open(64)
    for text, drafted in drafts:
        assert len(drafted) == 1
        scores = session.extend(text[session.length + 1 :], plain.states(text[:-1])[session.length :])
        for node, token in enumerate(drafted):
            assert scores.top(1)[0][0][0] == token
            scores = session.grow([token], [node - 1])
