"""DFlash drafters in every published layout against plain torch, and against transformers' own class; refusals."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from specchat.backends import UserError

from ...cases import FULL
from ...fakes.drafters.dflash_files import write_dflash
from ...fakes.drafters.head_files import WIDTH, load_weights
from ...fakes.drafters.heads import LAYERS, load_dflash, states_of, target_folder
from ...fakes.models.references import generated, network
from ...fakes.models.tiny import VOCAB
from .plain_torch import PlainTorch

SLIDING = ["sliding_attention", "full_attention"]

LAYOUTS: dict[str, dict[str, Any]] = {
    "z-lab": {},
    "z-lab in bfloat16": {"dtype": torch.bfloat16, "heads": 2, "taps": (0, 2, LAYERS - 1)},
    "one layer, no taps named": {"layers": 1, "changes": {"fc.weight": torch.eye(WIDTH)}, "taps": None},
    "two layers, no taps named": {"taps": None, "bias": True},
    "windows": {"layer_types": SLIDING, "sliding_window": 9},
    "windows from dflash_config": {"inner": {"use_swa": True, "swa_window_size": 9, "causal": False}},
    "causal": {"is_causal": True},
    "scaled": {
        "inner": {
            "input_embedding_scale": 3.0,
            "attention_value_scale": 0.5,
            "output_multiplier": 0.3,
            "final_logit_softcapping": 4.0,
        }
    },
    "of another width": {"hidden": 48, "own_embeddings": True, "target_hidden_size": WIDTH},
    "speculators": {"layout": "speculators", "drafted": 100},
    "speculators, no taps named": {
        "layout": "speculators",
        "taps": None,
        "changes": {"fc.weight": torch.randn(WIDTH, 3 * WIDTH, generator=torch.Generator().manual_seed(5))},
    },
    "speculators with windows": {"layout": "speculators", "layer_types": SLIDING, "sliding_window": 7, "own_embeddings": True},
    "speculators with windows both ways": {
        "layout": "speculators",
        "layer_types": SLIDING,
        "sliding_window": 4,
        "sliding_window_non_causal": True,
        "sample_from_anchor": True,
    },
    "deepspec": {"layout": "deepspec", "own_embeddings": True, "taps": (-1, 2, LAYERS - 1)},
    "transformers": {"layout": "transformers", "layer_types": SLIDING, "sliding_window": 5},
}


class Reference(PlainTorch):
    """The forward pass as the formats describe it, in plain torch, over the whole text and a block at once."""

    def __init__(self, folder: Path) -> None:
        self.config = json.loads((folder / "config.json").read_text())
        named = {"encoder.fc.weight": "fc.weight", "encoder.output_norm_enc.weight": "hidden_norm.weight"}
        self.library = "encoder.fc.weight" in load_weights(folder)
        super().__init__({named.get(name, name): t for name, t in load_weights(folder).items()}, 1e-6, 500.0, VOCAB)
        self.layer = self.config.get("transformer_layer_config", self.config)
        self.given = {**self.config, **self.config.get("dflash_config", {})}
        self.speculators = "speculators_model_type" in self.config
        self.block, self.count = self.config["block_size"], self.layer["num_hidden_layers"]
        self.first = int(not (self.given.get("sample_from_anchor") or "markov_rank" in self.config))
        module = network(target_folder())
        self.embeddings = self.w.get("embed_tokens.weight", module.get_input_embeddings().weight)
        self.head = self.w.get("lm_head.weight", module.get_output_embeddings().weight)

    @property
    def taps(self) -> list[int]:
        """As transformers counts hidden states."""
        if self.speculators:
            return self.config["aux_hidden_state_layer_ids"] or [2, LAYERS // 2, LAYERS - 3]
        ids = self.given.get("target_layer_ids")
        if ids is None:
            ids = [LAYERS // 2] if self.count == 1 else [1, LAYERS - 3]
        return [id + 1 for id in ids]

    def seen(self, i: int, rows: Tensor, keys: Tensor) -> Tensor:
        """Which keys a position of the block sees."""
        slides = (self.layer.get("layer_types") or ["full_attention"] * self.count)[i] == "sliding_attention"
        causal = slides and not self.library and not self.given.get("sliding_window_non_causal")
        causal = self.given.get("is_causal", self.given.get("causal", causal))
        away = rows[:, None] - keys[None]
        out = torch.ones_like(away, dtype=torch.bool)
        if slides or self.given.get("use_swa"):
            window = self.given.get("swa_window_size") or self.layer["sliding_window"]
            out &= away.abs() < window + self.library
        return out & (away >= 0) if causal else out

    def around(self, i: int, part: str, x: Tensor, run: Callable[[Tensor], Tensor]) -> Tensor:
        """A part of a layer, attention or MLP, on its normed input."""
        return run(x)

    def outputs(self, states: Tensor, token: int) -> Tensor:
        """The states that guess, after the last norm [positions, width]."""
        n = len(states)
        text = self.norm(self.linear(states, "fc"), "hidden_norm")
        block = torch.tensor([token] + [self.given["mask_token_id"]] * (self.block - 1))
        x = F.embedding(block, self.embeddings) * self.given.get("input_embedding_scale", 1.0)
        keys, rows = torch.arange(n + self.block), torch.arange(n, n + self.block)

        def attend(i: int, y: Tensor) -> Tensor:
            at = f"layers.{i}.self_attn."
            q = self.norm(self.linear(y, f"{at}q_proj").view(self.block, -1, 8), f"{at}q_norm")
            both = torch.cat((text, y))
            k = self.norm(self.linear(both, f"{at}k_proj").view(len(both), -1, 8), f"{at}k_norm")
            v = self.linear(both, f"{at}v_proj").view(len(both), -1, 8) * self.given.get("attention_value_scale", 1.0)
            return self.linear(self.attend(self.turn(q, n), self.turn(k), v, self.seen(i, rows, keys)), f"{at}o_proj")

        for i in range(self.count):
            y = self.norm(x, f"layers.{i}.input_layernorm")
            x = x + self.around(i, "attention", y, partial(attend, i))
            y = self.norm(x, f"layers.{i}.post_attention_layernorm")
            x = x + self.around(i, "mlp", y, partial(self.mlp, at=f"layers.{i}."))
        return self.norm(x, "norm")[self.first :]

    def scores(self, hidden: Tensor) -> Tensor:
        """What the LM head makes of states [positions, drafted]."""
        logits: Tensor = F.linear(hidden, self.head) * self.given.get("output_multiplier", 1.0)
        if cap := self.given.get("final_logit_softcapping"):
            logits = torch.tanh(logits / cap) * cap
        return logits

    def logits(self, states: Tensor, token: int) -> Tensor:
        """Logits of all guesses, over the target's vocabulary [positions, vocab]."""
        return self.widened(self.scores(self.outputs(states, token)))


@pytest.fixture(scope="module", params=list(LAYOUTS))
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dflash(tmp_path_factory.mktemp("dflash"), **LAYOUTS[request.param])


def test_guesses_over_a_text_are_those_of_plain_torch(folder: Path) -> None:
    head, plain = load_dflash(folder), Reference(folder)
    assert (head.info.kind, head.info.title, list(head.info.taps)) == ("dflash", "DFlash", plain.taps)
    assert head.positions == plain.block - plain.first
    rng = random.Random(4)
    text = [rng.randrange(VOCAB) for _ in range(60 if FULL else 30)]
    states = states_of(text, plain.taps)
    session: Any = head.open(64)
    for length in [1, 2, 3, 6, 7, 8, 13, *range(14, len(text), 1 if FULL else 5)]:
        session.extend(states[session.length : length])
        found = session.guess(text[length], head.positions)
        assert session.length == length
        assert found.positions == tuple(range(length + 1, length + 1 + head.positions))
        with torch.no_grad():
            wanted = plain.logits(states[:length], text[length])
        torch.testing.assert_close(found.logits, wanted, rtol=1e-3, atol=1e-3)
    # Blocks leave nothing behind, and what is forgotten is gone.
    session.rewind(5)
    session.extend(states[5:9] * 2)
    session.rewind(4)
    session.extend(states[4:length])
    torch.testing.assert_close(session.guess(text[length], head.positions).logits, found.logits)
    # A part of the positions is guessed as the whole is.
    torch.testing.assert_close(session.guess(text[length], 2).logits, found.logits[:2])


def test_drafts_are_those_of_transformers_own_class(tmp_path: Path) -> None:
    """Its assistant model in its own generator, beside the same target; every draft of an answer is compared."""
    from transformers.generation import candidate_generator
    from transformers.models.muse_glimmer_assistant import MuseGlimmerAssistantModel

    for windows in (["full_attention"] * 2, SLIDING):
        folder = write_dflash(tmp_path / windows[0], "transformers", layer_types=windows, sliding_window=6, seed=3)
        theirs: Any = MuseGlimmerAssistantModel.from_pretrained(folder, dtype=torch.float32)
        drafts: list[tuple[list[int], list[int]]] = []

        class Watched(candidate_generator.DFlashTokenCandidateGenerator):
            def get_candidates(self, input_ids: torch.LongTensor, *args: Any, **kwargs: Any) -> Any:
                ids, logits = super().get_candidates(input_ids, *args, **kwargs)
                if logits is not None:
                    drafts.append((input_ids[0].tolist(), ids[0, input_ids.shape[1] :].tolist()))  # noqa: B023
                return ids, logits

        asked = {"assistant_model": theirs.eval(), "speculation_type": "dflash", "eos_token_id": None}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("transformers.generation.utils.DFlashTokenCandidateGenerator", Watched)
            generated(network(target_folder()), [0, 2, *(5 + 7 * i % 200 for i in range(12))], 24, **asked)
        assert len(drafts) > 5
        session: Any = load_dflash(folder).open(64)
        for text, drafted in drafts:
            states = states_of(text[:-1], (2, 4))
            session.extend(states[session.length :])
            guessed = session.guess(text[-1], 5).logits.argmax(-1).tolist()
            assert guessed[: len(drafted)] == drafted


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "missing": ({"changes": {"layers.1.mlp.up_proj.weight": None}}, "missing 1 tensor .* such as layers.1.mlp.up_proj.weight"),
    "no fc": ({"changes": {"fc.weight": None}}, "such as fc.weight"),
    "no hidden_norm": ({"changes": {"hidden_norm.weight": None}}, "such as hidden_norm.weight"),
    "no q_norm": ({"changes": {"layers.0.self_attn.q_norm.weight": None}}, "such as layers.0.self_attn.q_norm.weight"),
    "shape": ({"changes": {"norm.weight": torch.ones(31)}}, r"norm.weight has the shape \[31\] instead of \[32\]"),
    "unknown": ({"changes": {"layers.0.conv.weight": torch.ones(3)}}, "does not know, such as layers.0.conv.weight"),
    "vocabulary": ({"vocab_size": 300}, "a vocabulary of 300 tokens, and target has 256"),
    "width": ({"width": 64, "hidden": 64}, "hidden states 64 numbers wide, and those of target have 32"),
    "its own width": ({"hidden": 48}, "missing 2 tensors"),
    "taps": ({"inner": {"target_layer_ids": [1, 2, 3]}}, r"reads 2 layers of the target \(fc.weight\), .* names 3"),
    "no such layer": ({"taps": (1, 6)}, "layers that target does not have: it has 6 layers"),
    "layer list": ({"inner": {"target_layer_ids": "all"}}, "does not list the target's layers"),
    "nan": ({"changes": {"fc.weight": torch.full((32, 64), torch.nan)}}, r"fc.weight holds numbers that are none \(NaN"),
    "quantized": ({"changes": {"fc.weight": torch.ones((32, 64), dtype=torch.int8)}}, "fc.weight in int8"),
    "no mask": ({"inner": {"mask_token_id": None}}, "needs mask_token_id, not None"),
    "mask": ({"mask": 999}, "uses the token 999 as its mask, and target has 256 tokens"),
    "block": ({"block": 1}, "needs a block_size of 2 to 256"),
    "layer types": ({"layer_types": ["linear_attention"] * 2}, "needs layer_types, one for each of 2 layers"),
    "window": ({"layer_types": SLIDING}, "needs sliding_window, a whole number"),
    "sinks": ({"inner": {"attention_sink_bias": True}}, "sets attention_sink_bias, which specchat cannot draft with"),
    "rope": ({"inner": {"is_neox_style": False}}, "sets is_neox_style"),
    "scale": ({"inner": {"output_multiplier": "big"}}, "needs a number for output_multiplier, not big"),
    "d2t": ({"layout": "speculators", "drafted": 100, "changes": {"d2t": torch.full((100,), 200)}}, "d2t does not lead to"),
    "no d2t": ({"layout": "speculators", "drafted": 100, "changes": {"d2t": None}}, "such as d2t"),
}


@pytest.mark.parametrize("case", list(WRONG))
def test_a_wrong_drafter_is_refused_in_one_sentence(case: str, tmp_path: Path) -> None:
    options, words = WRONG[case]
    with pytest.raises(UserError, match=words) as caught:
        load_dflash(write_dflash(tmp_path / "drafter", **options))
    assert "\n" not in str(caught.value)
