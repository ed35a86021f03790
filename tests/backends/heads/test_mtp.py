"""MTP layers in a model's own checkpoint: against transformers' own layer and its own generator; those that are refused."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor

from specchat.backends import LoadOptions, UserError
from specchat.backends.base import ROOT
from specchat.backends.files.checkpoint import check_folder, shown
from specchat.backends.heads.base import PathHead
from specchat.backends.heads.mtp.format import mtp_format
from specchat.backends.heads.mtp.load import load_mtp
from specchat.backends.hf.model import load_transformers
from specchat.engine.drafts import Drafts, refusals
from specchat.engine.messages import Load

from ...cases import FULL
from ...fakes.drafters.mtp_files import (
    FAMILIES,
    HYBRIDS,
    LAYERS,
    REFERENCED,
    WIDTH,
    Family,
    _config,
    mtp_folder,
    mtp_target,
    published,
    write_mtp,
)
from ...fakes.models.references import generated
from ...fakes.models.tiny import VOCAB

SEVERAL: tuple[Family, ...] = ("deepseek-v3", "glm4-moe", "mimo")
"""Families that may have several MTP layers."""


def loaded(family: Family, layers: int = 1) -> PathHead:
    head = load_mtp(mtp_target(family, layers=layers))
    assert head is not None
    return head


class Reference:
    """The format's forward pass, with transformers' own layers where they would stand in a deeper model."""

    def __init__(self, family: Family, layers: int = 1) -> None:
        from transformers import AutoModelForCausalLM

        self.family, folder = family, mtp_folder(family, layers=layers)
        self.w = load_file(folder / "model.safetensors")
        auto: Any = AutoModelForCausalLM
        with shown(folder, check_folder(folder)) as view:
            self.module = auto.from_pretrained(view, dtype=torch.float32).eval()
        self.module.config._name_or_path = str(folder)
        deeper = auto.from_config(_config(family, layers), dtype=torch.float32).eval()
        self.layers = deeper.model.layers[LAYERS:]
        for number, layer in enumerate(self.layers):
            for name, weight in layer.named_parameters():
                weight.data = self.tensor(name, number)
        self.rotary = deeper.model.rotary_emb
        self.epsilon = deeper.config.rms_norm_eps

    def tensor(self, name: str, number: int) -> Tensor:
        """A tensor of an MTP layer; experts as transformers stacks them."""
        if name.endswith((".experts.gate_up_proj", ".experts.down_proj")):
            first, _, last = name.rpartition(".")
            parts = ("gate_proj", "up_proj") if last == "gate_up_proj" else ("down_proj",)
            return torch.stack(
                [torch.cat([self.tensor(f"{first}.{e}.{part}.weight", number) for part in parts]) for e in range(4)]
            )
        return self.w[published(self.family, number, name)]

    def norm(self, x: Tensor, name: str, layer: int) -> Tensor:
        weight = self.tensor(f"{name}.weight", layer) + (self.family in HYBRIDS)
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.epsilon) * weight

    def states(self, text: list[int]) -> Tensor:
        """The model's, after the final norm [n, width]."""
        found: Tensor = self.module.model(torch.tensor([text])).last_hidden_state[0]
        return found

    def run(self, tokens: list[int], states: Tensor, layer: int = 0) -> Tensor:
        """What is fed on, for each pair [n, width]; it is what the LM head reads, too."""
        embedded = self.norm(self.module.get_input_embeddings().weight[tokens], "enorm", layer)
        parts = [embedded, self.norm(states, "hnorm", layer)]
        joined = torch.cat(parts[::-1] if self.family == "mimo" else parts, -1)
        hidden = F.linear(joined, self.tensor("eh_proj.weight", layer))[None]
        n = len(tokens)
        mask = torch.zeros(n, n).masked_fill(torch.ones(n, n).triu(1).bool(), torch.finfo(torch.float32).min)[None, None]
        around = self.rotary(hidden, position_ids=torch.arange(1, n + 1)[None])
        out = self.layers[layer](hidden, attention_mask=mask, position_embeddings=around)
        return self.norm((out[0] if isinstance(out, tuple) else out)[0], "shared_head.norm", layer)

    def after(self, text: list[int], states: Tensor, path: list[int]) -> Tensor:
        """Logits after a text and a path below it [vocab]."""
        tokens, last = [*text[1:], *path], len(self.layers) - 1
        for layer in range(min(len(path), last)):  # each reads tokens one further on
            states, tokens = self.run(tokens[: len(states)], states, layer), tokens[1:]
        while len(states) <= len(tokens):
            out = self.run(tokens[: len(states)], states, min(len(path), last))
            states = torch.cat((states, out[-1:]))
        return self.module.lm_head(out[-1])  # type: ignore[no-any-return]


@pytest.mark.parametrize(("family", "layers"), [*((family, 1) for family in FAMILIES), *((each, 3) for each in SEVERAL)])
def test_chains_and_trees_are_those_of_transformers_own_layers(family: Family, layers: int) -> None:
    head, plain = loaded(family, layers), Reference(family, layers)
    assert (head.info.kind, head.info.title, head.info.taps) == ("mtp", "MTP", (LAYERS,))
    rng = random.Random(4)
    text = [rng.randrange(VOCAB) for _ in range(24)]
    session = head.open(64)
    with torch.no_grad():
        states = plain.states(text[:-1])
        for length in (2, 3, 5, 9, 16, 24) if not FULL else range(2, 25):
            known = session.length
            scores: Any = session.extend(text[known + 1 : length], states[known : length - 1])
            wanted = plain.after(text[:length], states[: length - 1], [])
            torch.testing.assert_close(scores.logits[0], wanted, rtol=1e-3, atol=1e-3)
        paths: list[list[int]] = []
        for parents in ([ROOT, ROOT], [0, 0, 1], [2, 4], [5], [7, ROOT, 1, 5, 6]):
            tokens = [rng.randrange(VOCAB) for _ in parents]
            grown: Any = session.grow(tokens, parents)
            for row, token, parent in zip(grown.logits, tokens, parents, strict=True):
                paths.append([*(paths[parent] if parent != ROOT else []), token])
                torch.testing.assert_close(row, plain.after(text, states, paths[-1]), rtol=1e-3, atol=1e-3)


def drafts_of_transformers(plain: Reference, layers: int) -> list[tuple[list[int], list[int]]]:
    """By the text before each step what transformers' own generator drafts in an answer."""
    from transformers.generation import candidate_generator
    from transformers.modeling_layers import MtpModel

    drafts: list[tuple[list[int], list[int]]] = []

    class Watched(candidate_generator.MTPCandidateGenerator):
        def get_candidates(self, input_ids: torch.LongTensor, *args: Any, **kwargs: Any) -> Any:
            ids, logits = super().get_candidates(input_ids, *args, **kwargs)
            if logits is not None:
                drafts.append((input_ids[0].tolist(), ids[0, input_ids.shape[1] :].tolist()))
            return ids, logits

    with pytest.MonkeyPatch.context() as patch:
        # The published checkpoints have their MTP layers at other numbers.
        numbers = "|".join(str(LAYERS + number) for number in range(layers))
        here = staticmethod(lambda _: re.compile(rf"^model\.layers\.({numbers})\."))
        patch.setattr(MtpModel, "get_mtp_weights_regex", here)
        patch.setattr("transformers.generation.utils.MTPCandidateGenerator", Watched)
        generated(plain.module, [0, 2, *(5 + 7 * i % 200 for i in range(10))], 24, use_mtp=True, eos_token_id=None)
    return drafts


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("family", REFERENCED)
def test_drafts_are_those_of_transformers_own_generator(family: Family, layers: int) -> None:
    plain = Reference(family, layers)
    drafts = drafts_of_transformers(plain, layers)
    assert len(drafts) > 10
    session = loaded(family, layers).open(64)
    for text, drafted in drafts:
        assert len(drafted) == layers
        with torch.no_grad():
            states = plain.states(text[:-1])
        scores = session.extend(text[session.length + 1 :], states[session.length :])
        for node, token in enumerate(drafted):
            assert scores.top(1)[0][0][0] == token
            scores = session.grow([token], [node - 1])


@pytest.mark.parametrize("layers", [1, 3])
def test_whatever_came_before_scores_are_those_of_a_fresh_cache(layers: int) -> None:
    head, rng = loaded("glm4-moe", layers), random.Random(2)
    session, text = head.open(48), [rng.randrange(VOCAB) for _ in range(33)]
    states = torch.randn(32, WIDTH, generator=torch.Generator().manual_seed(1))
    for _ in range(400 if FULL else 60):
        begin = rng.choice((0, rng.randrange(session.length + 1)))
        session.rewind(begin)
        # Other states for a while: what is forgotten must be gone.
        for lead in (-1, 1):
            end = min(32, begin + rng.choice((1, 1, 2, 7)))
            if end <= begin:
                break
            found: Any = session.extend(text[begin + 1 : end + 1], lead * states[begin:end])
            if lead == -1:
                session.grow([3, 4], [ROOT, ROOT])
                session.rewind(begin)
        if end <= begin:
            continue
        fresh = head.open(48)
        wanted: Any = fresh.extend(text[1 : end + 1], states[:end])
        torch.testing.assert_close(found.logits, wanted.logits, rtol=1e-3, atol=1e-3)
        parents = [ROOT]
        for depth in range(rng.randrange(5)):
            tokens = [rng.randrange(VOCAB) for _ in parents]
            found, wanted = session.grow(tokens, parents), fresh.grow(tokens, parents)
            torch.testing.assert_close(found.logits, wanted.logits, rtol=1e-3, atol=1e-3)
            living = 1 + 2 * depth
            parents = [rng.randrange(living), rng.randrange(living)]
            if rng.random() < 0.3:
                session.drop(living - 1)
                session.grow(tokens[-1:], [ROOT] if living == 1 else [rng.randrange(living - 1)])
                break


WRONG: dict[str, tuple[dict[str, Tensor | None], str]] = {
    "missing": ({"self_attn.o_proj.weight": None}, r"is missing the tensor self_attn.o_proj.weight"),
    "no norm": ({"shared_head.norm.weight": None}, "is missing the tensor shared_head.norm.weight"),
    "an expert": ({"mlp.experts.2.up_proj.weight": None}, "is missing the tensor mlp.experts.2.up_proj.weight"),
    "shape": ({"eh_proj.weight": torch.ones(WIDTH, WIDTH)}, r"eh_proj.weight has the shape \[32, 32\] instead of \[32, 64\]"),
    "nan": ({"hnorm.weight": torch.full((WIDTH,), torch.nan)}, "is damaged or quantized: hnorm.weight holds no plain numbers"),
    "quantized": ({"eh_proj.weight": torch.ones(WIDTH, 2 * WIDTH, dtype=torch.int8)}, "is damaged or quantized: eh_proj"),
    "unknown": ({"gate.weight": torch.ones(3)}, "has 1 tensor that specchat does not know, such as gate.weight"),
}


FEW = ("missing", "no norm", "shape", "nan")


@pytest.mark.parametrize(
    ("family", "layers", "cases"),
    [("glm4-moe", 1, tuple(WRONG)), ("glm4-moe", 2, ("missing", "nan")), ("mimo", 1, FEW), ("qwen3.5", 1, FEW)],
)
def test_a_wrong_one_is_refused_in_one_sentence_and_the_model_still_loads(
    family: Family, layers: int, cases: tuple[str, ...], tmp_path: Path
) -> None:
    for case in cases:
        changes, words = WRONG[case]
        folder = write_mtp(tmp_path / case, family, layers=layers, changes=changes)
        model = load_transformers(folder, "model", LoadOptions(device="cpu"))
        with pytest.raises(UserError, match=words) as caught:
            load_mtp(model)
        assert "\n" not in str(caught.value)
        drafts = Drafts(Load(1, str(folder), device="cpu"))
        drafts.join(model)
        assert refusals(model, drafts)["mtp"] == str(caught.value)
        assert drafts.head is None


def test_a_checkpoint_without_one_of_its_layers_is_refused(tmp_path: Path) -> None:
    folder = write_mtp(tmp_path / "model", "mimo", layers=3)
    tensors = load_file(folder / "model.safetensors")
    save_file({name: t for name, t in tensors.items() if ".mtp_layers.1." not in name}, folder / "model.safetensors")
    with pytest.raises(UserError, match="has MTP layers but not number 2 of them"):
        mtp_format(folder, LAYERS)
    save_file({**tensors, "model.mtp.layers.0.eh_proj.weight": torch.ones(3)}, folder / "model.safetensors")
    with pytest.raises(UserError, match="cannot draft with MiMo-V2's MTP layers yet"):
        mtp_format(folder, LAYERS)
