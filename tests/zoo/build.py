"""Tiny models whose random weights write varied text, and the comparison of every method with the models' own library."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from specchat.backends import Model, Sampling, base
from specchat.backends.loading import builtin_path

from ..decoders.worlds import ROUNDS, Talk, World
from ..fakes.answers import one_by_one
from .architectures import CONTEXT, VARIANTS, VOCAB, NotCovered, configuration, line

MOST_PARAMETERS = 5_000_000
"""Most parameters of a tiny model: one with more has a size that `architectures.SMALL` does not name."""

SPREADS = (0.25, 0.5, 1.0)
"""Standard deviations of weights, tried until one gives varied answers. Layers that norm what they add need larger ones."""
VARIED = 20
"""Fewest distinct tokens among the first TRIAL of an answer."""
TRIAL = 40

FORGETFUL = ("phi4_multimodal",)
"""Kinds whose `generate` drops the cache where the original context ends, and from then on reads the last token alone
(transformers 5.23). Here `generate` gets no cache, and reads the whole text for each token."""

UNTOUCHED = ("A_log", "conv", "rg_lru", "altup", "router", "e_score")
"""Parts of the names of weights that stay as transformers made them: with random values, states and scores diverge."""

ROOM = 80
"""Fewest tokens of the context that a prompt around a length leaves: for its answer, and for the next turn."""

RESERVED = 8
"""Ids below this are special tokens of the tokenizer."""


class Tiny:
    """One architecture's tiny model as transformers has it."""

    def __init__(self, name: str) -> None:
        import transformers
        from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

        self.name = name
        self.config = configuration(name)
        named = str(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[VARIANTS.get(name, (name,))[0]])
        # If the model takes images too, its files hold the weights of this larger class.
        larger = named.replace("ForCausalLM", "ForConditionalGeneration") if "text_config" in self.config.sub_configs else named
        model_class: Any = getattr(transformers, larger, getattr(transformers, named))
        try:
            with torch.device("meta"):
                size = sum(weight.numel() for weight in model_class(self.config).parameters())
            if size > MOST_PARAMETERS:
                raise NotCovered(f"it would have {size:,} parameters: some of its sizes have names that SMALL lacks")
            torch.manual_seed(0)
            self.network: Any = model_class(self.config).eval()
            # Drop the family's defaults, which may force tokens at an answer's end or suppress some at its beginning.
            self.network.generation_config = transformers.GenerationConfig()  # type: ignore[no-untyped-call]
            self._liven()
            if len({tuple(self.writes(tokens(60, seed=2), 4)) for _ in range(3)}) > 1:
                raise NotCovered("transformers itself writes another text each time")
        except NotCovered:
            raise
        except Exception as error:
            raise NotCovered(f"transformers fails: {line(error)}") from error

    def _liven(self) -> None:
        """Random weights with which greedy answers do not loop."""
        best: tuple[int, float] = (0, 0.0)
        prompt = tokens(14, seed=1)
        for spread in (*SPREADS, None):
            spread = best[1] if spread is None else spread
            generator = torch.Generator().manual_seed(3)
            with torch.no_grad():
                for name, weight in self.network.named_parameters():
                    if weight.ndim > 1 and not any(word in name for word in UNTOUCHED):
                        weight.normal_(0, spread, generator=generator)
            variety = len(set(self.writes(prompt, TRIAL)))
            if variety >= VARIED or spread == best[1]:
                return
            best = max(best, (variety, spread))

    def writes(self, prompt: Sequence[int], count: int) -> list[int]:
        """Answer a prompt with transformers' `generate`, greedily, past EOS."""
        ids = torch.tensor([prompt])
        with torch.inference_mode():
            # RecurrentGemma keeps its state in the module: a prompt of one token would begin with what is left there.
            self.network(input_ids=ids[:, :1], use_cache=False)
            out = self.network.generate(
                ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, do_sample=False,
                use_cache=self.name not in FORGETFUL, pad_token_id=0,
            )  # fmt: skip
        return out[0, len(prompt) :].tolist()  # type: ignore[no-any-return]

    def gap(self, text: Sequence[int], one: int, other: int) -> float:
        """Distance of two tokens' logits after a text, by transformers, without a cache."""
        with torch.inference_mode():
            logits = self.network(input_ids=torch.tensor([text]), use_cache=False).logits[0, -1].float()
        return abs(float(logits[one] - logits[other]))

    def save(self, folder: Path) -> Path:
        self.network.save_pretrained(folder)
        for file in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
            shutil.copy(builtin_path() / file, folder / file)
        return folder


def prompts_around(lengths: Iterable[int], limit: int, counts: Sequence[int] = ()) -> list[list[int]]:
    """Make prompts of 1 and 14 tokens, and for each of `lengths` a little shorter, as long, and three
    times as long, as far as there is room; and one near the end of a short context. Given `counts`, of these lengths."""
    around = {14, *(count for length in lengths for count in (length - 5, length, 3 * length))}
    around = {count for count in around if 1 < count <= limit - ROOM}
    if limit <= CONTEXT:
        around.add(limit - 10)
    return [tokens(count, seed=count) for count in counts or (*sorted(around), 1)]


def tokens(count: int, seed: int) -> list[int]:
    """Random token ids, whose second half repeats the first: methods that copy find something."""
    generator = torch.Generator().manual_seed(seed)
    half = torch.randint(RESERVED, VOCAB, (count - count // 2,), generator=generator).tolist()
    return (half + half)[:count]


ANSWER = 24
"""Tokens of an answer."""

CHUNK = 40
"""Tokens of a prompt per pass, so that short ones take several."""

TIE = 1e-4
"""Two logits as close as this are a near tie, which float32 may decide either way."""


def compare(
    reference: Any, model: Model, draft: Model, prompts: Sequence[Sequence[int]], only: Iterable[str] = ()
) -> list[str]:
    """Assert that plain decoding writes what the library does, near ties aside, and each method what
    plain decoding does; return the methods tried. `reference` is a Tiny or a `gguf_files.Plain`."""
    model.info = replace(model.info, eos_ids=())  # random weights may end anywhere
    with patch.object(base, "PREFILL_CHUNK", CHUNK):
        for prompt in prompts:
            room = min(ANSWER, model.info.context - len(prompt))
            written, expected = one_by_one(model, prompt, Sampling(), room), reference.writes(prompt, room)
            if written != expected:
                at = next(i for i, (one, other) in enumerate(zip(written, expected, strict=True)) if one != other)
                gap = reference.gap([*prompt, *expected[:at]], written[at], expected[at])
                assert gap < TIE, f"{len(prompt)} tokens, at {at}, by {gap:.2g} logits"
        world = World(model, (draft,), prompts=[prompt for prompt in prompts if len(prompt) < CONTEXT - 2 * ANSWER])
        choices = [(name, settings) for name, settings in world.ways() if not only or name in only]
        talk = Talk(world, len(prompts))
        for _ in range(ROUNDS):
            for name, _ in choices:
                talk.ask((name, {}), [(name, {}) for name, _ in choices])
        talk.conversation.close()
    return [name for name, _ in choices]
