"""The frozen model that a drafter is trained for."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, LlamaConfig

from ....backends import UserError
from ....backends.files.checkpoint import check_folder
from ....backends.hf.tokenizer import TextCodec, eos_ids


class FrozenTarget:
    """A causal language model in a folder, with its tokenizer.

    Args:
        folder: config.json, *.safetensors and the tokenizer's files.
        device: of the model.
        dtype: of its weights; None for the file's own.

    Raises:
        UserError: the folder holds no model that can be used; says why.
    """

    def __init__(self, folder: Path, device: torch.device, dtype: torch.dtype | None) -> None:
        check_folder(folder)
        loader: Any = AutoModelForCausalLM
        try:
            self.module = loader.from_pretrained(
                str(folder), dtype="auto" if dtype is None else dtype, use_safetensors=True, local_files_only=True
            )
        except (ValueError, OSError, KeyError) as error:
            raise UserError(f"Cannot load {folder}: {str(error).strip().splitlines()[0]}") from None
        self.module.to(device).eval().requires_grad_(False)
        self.folder = folder
        self.device = device
        self.config = self.module.config.get_text_config(decoder=True)
        self.embedding: torch.Tensor = self.module.get_input_embeddings().weight.detach()
        self.codec = TextCodec(folder, self.vocabulary)
        self.ends = eos_ids(self.module, self.codec)

    @property
    def vocabulary(self) -> int:
        """Rows of the embedding."""
        return self.embedding.shape[0]

    @property
    def head(self) -> torch.Tensor:
        """The LM head [vocabulary, hidden]."""
        weight: torch.Tensor = self.module.get_output_embeddings().weight.detach()
        return weight

    def taps(self, chosen: Sequence[int] = ()) -> tuple[int, ...]:
        """Check the layers whose inputs an EAGLE-3 head reads; the usual three if none are chosen.

        Raises:
            UserError: the model does not have them.
        """
        layers = int(self.config.num_hidden_layers)
        taps = tuple(chosen) or (2, layers // 2, layers - 3)
        if sorted(set(taps)) != list(taps) or not taps[0] >= 0 or not taps[-1] < layers:
            raise UserError(
                f"An EAGLE-3 head reads the inputs of different layers in rising order, here {', '.join(map(str, taps))}, but "
                f"{self.folder} has the layers 0 to {layers - 1}. Name others with --taps."
            )
        return taps

    def layer(self, inner: int = 0) -> LlamaConfig:
        """Make the configuration of a Llama layer as wide as the target's.

        Args:
            inner: width of its feed-forward network, if not the target's own.
        """
        config, width = self.config, int(self.config.hidden_size)
        heads = int(config.num_attention_heads)
        rope = getattr(config, "rope_parameters", None) or {}
        return LlamaConfig(
            vocab_size=self.vocabulary,
            hidden_size=width,
            intermediate_size=inner or getattr(config, "intermediate_size", None) or 4 * width,
            num_hidden_layers=1,
            num_attention_heads=heads,
            num_key_value_heads=getattr(config, "num_key_value_heads", None) or heads,
            head_dim=getattr(config, "head_dim", None) or width // heads,
            max_position_embeddings=int(getattr(config, "max_position_embeddings", 2048)),
            rms_norm_eps=float(getattr(config, "rms_norm_eps", 1e-6)),
            # Plain rotation, however the target scales its own: the head learns with what it gets.
            rope_parameters={"rope_type": "default", "rope_theta": float(rope.get("rope_theta", 10_000.0))},
            bos_token_id=config.bos_token_id,
            eos_token_id=config.eos_token_id,
            pad_token_id=config.pad_token_id,
            tie_word_embeddings=False,
        )

    @torch.no_grad()
    def read(self, tokens: torch.Tensor, taps: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """One pass.

        Args:
            tokens: [chats, length]; padding stands at the end, where a causal mask hides it from every real token.
            taps: layers.

        Returns:
            what enters those layers, concatenated [chats, length, taps · hidden], and the logits [chats, length, vocabulary].
        """
        out = self.module(input_ids=tokens, use_cache=False, output_hidden_states=True)
        return torch.cat([out.hidden_states[tap] for tap in taps], -1), out.logits

    @torch.inference_mode()
    def answers(self, prompts: Sequence[Sequence[int]], limit: int) -> list[list[int]]:
        """Write greedy answers to prompts of token ids, as one batch.

        Returns:
            for each prompt the new ids up to and without the one that ends the answer; one that never ended is `limit` long.
        """
        width = max(map(len, prompts))
        pad = self.ends[0] if self.ends else 0
        tokens = torch.tensor([[pad] * (width - len(prompt)) + list(prompt) for prompt in prompts])
        mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
        generated = self.module.generate(
            tokens.to(self.device), attention_mask=mask.to(self.device), max_new_tokens=limit, do_sample=False,
            eos_token_id=list(self.ends) or None, pad_token_id=pad,
        )  # fmt: skip
        rows: list[list[int]] = [row[width:].tolist() for row in generated]
        return [row[: next((i for i, token in enumerate(row) if token in self.ends), limit)] for row in rows]
