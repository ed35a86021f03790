"""Tiny models that think before they answer, one for each way in which templates write thoughts. Their weights are a table: two
tokens lead to a third, by attention that looks at the token before."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from specchat.backends import LoadOptions, Model
from specchat.backends.hf.model import load_transformers
from specchat.backends.llama.model import load_llama
from specchat.builtin.recipe.tokenizer import build

from .llama_tiny import FLOAT32, gguf_of, room
from .tokenizers import letters, save_tokenizer

CONTEXT = 512
ROWS = 319
"""Tokens. The state has one place for each as the last token, one for each as the token before, and two that are always 1."""
WIDTH = 2 * ROWS + 2
THETA = 10_000.0
SHARP = 200.0
"""The factor by which attention scores of the token before outweigh those of its neighbours."""

NAMES = {"bos_token": "<|bos|>"}
"""Variables that their templates are always given."""

THOUGHT, ANSWER = "Hm, so.", "Yes, 42."
SAID = ("Hm,", " so."), ("Yes,", " 42.")

TURN = "{{ '<|user|>' + m.content + '<|end|>' }}"
ASK = "{% if add_generation_prompt %}{{ '<|assistant|>' }}"


@dataclass(frozen=True)
class Family:
    """One way to write thoughts."""

    template: str
    marks: tuple[str, str]
    script: Sequence[str]
    """Tokens that follow the prompt, thinking."""
    special: Sequence[str] = ()
    """Tokens that are not shown; the others of the script are added tokens that are."""
    also: Sequence[str] = ()
    """Further added tokens, which only prompts have."""
    opened_by: str = "model"
    kept: str = "none"
    carrier: str = ""
    words: tuple[str, ...] = ()
    default: str = ""
    structured: Callable[[str, str], dict[str, Any]] = lambda _, text: {"content": text}
    """The message of an answer as the template's authors would write it, from thought and text."""
    on: tuple[str, dict[str, Any]] = ("", {})
    """The word that makes it think, and the template's variables for it."""
    off: tuple[str, dict[str, Any]] = ("", {})


def key(name: str) -> Callable[[str, str], dict[str, Any]]:
    return lambda thought, text: {"content": text, name: thought}


THINK = ("<think>", "</think>")
HARMONY = ("<|start|>", "<|channel|>", "<|message|>", "<|return|>")


def chat(answer: str, ask: str = "", before: str = "", turn: str = TURN) -> str:
    """Write a template: how it begins, an assistant's message, other messages, and what follows the header of an answer."""
    every = "{% for m in messages %}{% if m.role == 'assistant' %}" + answer + "{% else %}" + turn + "{% endif %}{% endfor %}"
    return before + every + ASK + ask + "{% endif %}"


def parts(condition: str, inner: str) -> str:
    """Write an assistant's message whose content is text or some parts."""
    start = "{{ '<|assistant|>' }}{% if m.content is string %}{{ m.content }}{% " + condition + " %}"
    return start + inner + "{% endif %}{{ '<|end|>' }}"


SWITCHED: dict[str, Any] = {
    "carrier": "reasoning_content", "words": ("off", "on"), "default": "on", "structured": key("reasoning_content"),
    "off": ("off", {"enable_thinking": False}),
}  # fmt: skip

FAMILIES = {
    # Qwen 3: the model opens the thought; only the answer stays.
    "opens": Family(
        chat(
            "{% set thought = '' %}{% if m.reasoning_content is string %}{% set thought = m.reasoning_content %}{% endif %}"
            "{{ '<|assistant|>' }}{% if loop.last and thought %}{{ '<think>\\n' + thought + '\\n</think>\\n\\n' }}{% endif %}"
            "{{ m.content + '<|end|>' }}",
            "{% if enable_thinking is defined and not enable_thinking %}{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}",
        ),
        THINK, ["<think>", "\n" + SAID[0][0], SAID[0][1] + "\n", "</think>", "\n\n", *SAID[1]], **SWITCHED,
    ),
    # Spark, Laguna: the prompt opens the thought, and all thoughts stay.
    "opened": Family(
        chat(
            "{{ '<|assistant|><think>' + (m.reasoning_content or '') + '</think>' + m.content + '<|end|>' }}",
            "{{ '<think>' if enable_thinking is not defined or enable_thinking else '<think></think>' }}",
        ),
        THINK, [*SAID[0], "</think>", *SAID[1]], also=("<think>",), opened_by="prompt", kept="all", **SWITCHED,
    ),
    # R1: no field; the template cuts the thought out of the content.
    "cut": Family(
        chat(
            "{% set content = m.content %}{% if '</think>' in content %}"
            "{% set content = content.split('</think>')[-1] %}{% endif %}{{ '<|assistant|>' + content + '<|end|>' }}",
            "{{ '<think>\\n' }}",
        ),
        THINK, [*SAID[0], "</think>", *SAID[1]], also=("<think>",), opened_by="prompt", carrier="content",
    ),
    # DeepSeek V4: closed unless it is switched on, and then there are degrees.
    "closed": Family(
        chat(
            "{{ '<|assistant|>' + ('<think>' + m.reasoning_content if on and m.reasoning_content else '') }}"
            "{{ '</think>' + m.content + '<|end|>' }}",
            "{{ '<think>' if on else '</think>' }}",
            "{% set on = thinking is defined and thinking %}"
            "{% if on and reasoning_effort is defined and reasoning_effort == 'max' %}{{ 'Think hard.' }}{% endif %}",
        ),
        THINK, [*SAID[0], "</think>", *SAID[1]], also=("<think>",), opened_by="closed", kept="all", carrier="reasoning_content",
        words=("off", "on", "max"), default="off", structured=key("reasoning_content"), on=("on", {"thinking": True}),
    ),
    # gpt-oss: channels of control tokens; a raw answer in the content is refused. The model spells the second header otherwise
    # than the template does, which makes it another pair of tokens.
    "channels": Family(
        chat(
            "{% if '<|channel|>analysis' in m.content %}{{ raise_exception('Put thoughts into thinking.') }}{% endif %}"
            "{% if loop.last and m.thinking %}"
            "{{ '<|start|>assistant<|channel|>analysis<|message|>' + m.thinking + '<|end|>' }}{% endif %}"
            "{{ '<|start|>assistant<|channel|>final<|message|>' + m.content + '<|end|>' }}",
            before="{{ '<|start|>system<|message|>Reasoning: ' + (reasoning_effort or 'medium') + '<|end|>' }}",
            turn="{{ '<|start|>user<|message|>' + m.content + '<|end|>' }}",
        ).replace(ASK, "{% if add_generation_prompt %}{{ '<|start|>assistant' }}"),
        ("<|channel|>analysis<|message|>", "<|end|>"),
        [*"<|channel|> analysis <|message|>".split(), *SAID[0],
         *"<|end|> <|start|> assis tant <|channel|> final <|message|>".split(), *SAID[1], "<|return|>"],
        special=HARMONY, also=("assistant",), carrier="thinking", words=("low", "medium", "high"), default="medium",
        structured=key("thinking"), on=("high", {"reasoning_effort": "high"}),
    ),
    # Ministral: typed parts.
    "parts": Family(
        chat(parts("else", "{% for part in m.content %}"
            "{% if part.type == 'thinking' %}{{ '[THINK]' + part.thinking + '[/THINK]' }}"
            "{% elif part.type == 'text' %}{{ part.text }}{% endif %}{% endfor %}")),
        ("[THINK]", "[/THINK]"), ["[THINK]", *SAID[0], "[/THINK]", *SAID[1]], special=("[THINK]", "[/THINK]"), kept="all",
        carrier="parts",
        structured=lambda thought, text: {
            "content": [{"type": "thinking", "thinking": thought}, {"type": "text", "text": text}]
        },
    ),
    # Apertus: blocks.
    "blocks": Family(
        chat(parts("elif m.content is mapping and 'blocks' in m.content", "{% for block in m.content.blocks %}"
            "{% if block.type == 'thoughts' %}{{ '<|inner|>' + block.text + '<|outer|>' }}"
            "{% elif block.type == 'response' %}{{ block.text }}{% endif %}{% endfor %}")),
        ("<|inner|>", "<|outer|>"), ["<|inner|>", *SAID[0], "<|outer|>", *SAID[1]], special=("<|inner|>", "<|outer|>"),
        kept="all", carrier="blocks",
        structured=lambda thought, text: {
            "content": {"blocks": [{"type": "thoughts", "text": thought}, {"type": "response", "text": text}]}
        },
    ),
    # Granite: marks of plain words that only the system prompt tells of, around the answer too.
    "told": Family(
        chat(
            "{{ '<|assistant|>' + m.content + '<|end|>' }}",
            before="{% if thinking %}"
            "{{ 'Write thoughts between <think></think> and the rest between <response></response>.' }}{% endif %}",
        ),
        THINK, ["<th", "ink>", *SAID[0], "</th", "ink><", "response>", *SAID[1], "</res", "ponse>"],
        words=("off", "on"), default="off", on=("on", {"thinking": True}),
    ),
}  # fmt: skip


def vocabulary(family: Family) -> tuple[list[str], list[str]]:
    control = ["<|bos|>", "<|end|>", "<|user|>", "<|assistant|>", *family.special]
    return control, [token for token in dict.fromkeys([*family.script, *family.also]) if token not in control]


def write(family: Family, folder: Path) -> Path:
    from tokenizers import AddedToken
    from transformers import LlamaConfig, LlamaForCausalLM

    control, plain = vocabulary(family)
    core = build()
    words = {letter: i for i, letter in enumerate([*letters(), "zz"])}
    core.model = type(core.model)(vocab=words, merges=[("z", "z")])  # llama.cpp wants one
    core.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in control])
    core.add_tokens([AddedToken(name, special=False, normalized=False) for name in plain])
    end = "<|return|>" if "<|return|>" in control else "<|end|>"
    special = {"bos_token": "<|bos|>", "eos_token": end, "additional_special_tokens": control[1:]}
    save_tokenizer(core, folder, family.template, **special)
    ids = {name: core.token_to_id(name) or 0 for name in (*control, *plain)}
    config = LlamaConfig(
        vocab_size=ROWS, hidden_size=WIDTH, intermediate_size=32, num_hidden_layers=1, num_attention_heads=1,
        num_key_value_heads=1, max_position_embeddings=CONTEXT, bos_token_id=ids["<|bos|>"], eos_token_id=ids[end],
        rope_parameters={"rope_theta": THETA, "rope_type": "default"}, tie_word_embeddings=False,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    state = model.state_dict()
    with torch.no_grad():
        for name, weight in state.items():
            weight.fill_(1.0 if "norm" in name else 0.0)
        state["model.embed_tokens.weight"][:, :ROWS] = torch.eye(ROWS)
        state["model.embed_tokens.weight"][:, -2:] = 1.0
        _look_back(state, THETA)
        table = state["lm_head.weight"]
        script = [*family.script, *([] if family.script[-1] == end else [end])]
        (newline,) = core.encode("\n", add_special_tokens=False).ids
        token_ids = {"\n": newline, **ids}
        for one, two, then in _rules(family, script):
            if one in token_ids and two in token_ids:
                table[ids[then], token_ids[two]] = table[ids[then], ROWS + token_ids[one]] = 1.0
    model.save_pretrained(folder)
    return folder


def _rules(family: Family, script: Sequence[str]) -> list[tuple[str, str, str]]:
    """Which two tokens lead to which third."""
    start = script[0]
    begins = {
        "model": [("<|end|>", "<|assistant|>", start)],
        "prompt": [("<|assistant|>", "<think>", start), ("<think>", "\n", start)],
        "closed": [("<|assistant|>", "<think>", start), ("<|end|>", "<|assistant|>", start)],
    }[family.opened_by]
    if "<|channel|>" in script:
        begins = [("<|start|>", "assistant", start), ("assistant", "<|channel|>", "analysis")]
    if "</think>" in script:  # where the template has closed the thought
        answer = script[script.index(SAID[1][0])]
        begins += [("<|assistant|>", "</think>", answer), ("<think>", "</think>", answer)]
    inner = [(one, two, then) for (one, two), then in zip(pairwise(script), script[2:], strict=False)]
    last = [("<|assistant|>", script[0], script[1]), ("<think>", script[0], script[1])]
    return [*begins, *inner, *last]


def _look_back(state: dict[str, torch.Tensor], theta: float) -> None:
    """Make the layer put the token before next to the last one."""
    half = WIDTH // 2
    turns = theta ** (-torch.arange(half) / half)
    scale = math.sqrt(SHARP) / math.sqrt(WIDTH / 3)  # the norm in front makes each of a state's three ones so large
    query, k = (state[f"model.layers.0.self_attn.{name}_proj.weight"] for name in "qk")
    query[:half, -1], query[half:, -1] = scale * torch.cos(turns), -scale * torch.sin(turns)
    k[:half, -1] = scale
    value, out = (state[f"model.layers.0.self_attn.{name}_proj.weight"] for name in "vo")
    value[:ROWS, :ROWS] = torch.eye(ROWS) / math.sqrt(WIDTH / 3)
    out[ROWS : 2 * ROWS, :ROWS] = torch.eye(ROWS)


UNSAID = Family(
    "{% for m in messages %}" + TURN + "{% endfor %}" + ASK + "{% endif %}",
    THINK,
    ["\n\n", "<think>", "\n" + SAID[0][0], SAID[0][1] + "\n", "</think>", *SAID[1]],
)
"""MiniMax: only the vocabulary tells; and the model begins with a blank line."""


@functools.cache
def thinker(name: str, runtime: str) -> Model:
    """The loaded model of a family (sessions are independent; do not close it)."""
    folder = room() / f"thinks-{name}"
    if not folder.exists():
        write(UNSAID if name == "unsaid" else FAMILIES[name], folder)
    if runtime == "llama.cpp":
        return load_llama(gguf_of(folder), name, FLOAT32)
    return load_transformers(folder, name, LoadOptions(device="cpu"))
