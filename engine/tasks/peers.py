"""Other implementations on the same weights, to measure beside ours: transformers' own `generate` and llama-cpp-python."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from ...backends.base import Model
from ...errors import UserError, did_you_mean
from .work import Job

TRANSFORMERS = ("greedy", "lookup", "draft", "early-exit", "beam")
LLAMA_CPP = ("greedy", "lookup")

SETTINGS: Mapping[str, Mapping[str, int]] = {
    "transformers/lookup": {"tokens": 10},
    "transformers/draft": {},
    "transformers/early-exit": {"layers": 0},
    "transformers/beam": {"beams": 4},
    "llama-cpp/lookup": {"tokens": 10, "ngram": 2},
}
"""Their settings and defaults, the peers' own or those of their documentation; layers 0 is half of them."""

_networks: WeakKeyDictionary[Model, dict[str, Any]] = WeakKeyDictionary()
"""What was loaded for a model: it goes with it."""


def answer(job: Job, method: str, ids: Sequence[int], settings: Mapping[str, Any], max_tokens: int) -> dict[str, Any]:
    """One greedy answer by another implementation; returns what `measuring.measure_answer` does, as far as it can be told.

    Raises:
        UserError: there is no such implementation for this model.
    """
    package, _, name = method.partition("/")
    known = {"transformers": TRANSFORMERS, "llama-cpp": LLAMA_CPP}.get(package, ())
    if name not in known:
        raise UserError(f"There is no {method!r} to compare with: choose transformers/NAME or llama-cpp/NAME.")
    defaults = SETTINGS.get(method, {})
    if unknown := sorted(set(settings) - set(defaults)):
        hint = did_you_mean(unknown[0], defaults, None if defaults else "it has none.")
        raise UserError(f"{method} has no setting {unknown[0]!r}: {hint}")
    try:
        values = {key: int(settings.get(key, default)) for key, default in defaults.items()}
    except ValueError:
        raise UserError(f"The settings of {method} are whole numbers.") from None
    run = _transformers if package == "transformers" else _llama_cpp
    return run(job, name, list(ids), values, max_tokens)


def _once(job: Job, key: str, make: Callable[[], Any]) -> Any:
    """What `make` gives, made once for the loaded model."""
    store = _networks.setdefault(job.model, {})
    if key not in store:
        store[key] = make()
    return store[key]


def _network(model: Model) -> Any:
    """The weights of a model as transformers loads them, on the same device and in the same type."""
    import torch
    from transformers import AutoModelForCausalLM

    info = model.info
    if info.backend != "transformers":
        raise UserError("transformers can only be compared on safetensors models. Leave it out of --against.")
    network: Any = AutoModelForCausalLM.from_pretrained(info.path, dtype=getattr(torch, info.dtype), local_files_only=True)
    return network.to(info.device.split(",")[0].split(" ")[0]).eval()


def _transformers(job: Job, name: str, ids: list[int], values: Mapping[str, int], max_tokens: int) -> dict[str, Any]:
    import torch

    model = job.model
    network = _once(job, "network", lambda: _network(model))
    layers = network.config.get_text_config(decoder=True).num_hidden_layers
    options: dict[str, Any] = {}
    match name:
        case "lookup":
            options = {"prompt_lookup_num_tokens": values["tokens"]}
        case "early-exit":
            depth = values["layers"] or max(1, layers // 2)
            if not 0 < depth < layers:
                raise UserError(f"transformers/early-exit takes 1 to {layers - 1} layers of this model, not {depth}.")
            options = {"assistant_early_exit": depth}
        case "beam":
            options = {"num_beams": values["beams"]}
        case "draft":
            drafts = job.drafts.get() if job.drafts else []
            if not drafts:
                raise UserError("transformers/draft needs a draft model. Load one with --draft-model.")
            assistant = _once(job, "assistant", lambda: _network(drafts[0]))
            options = {"assistant_model": assistant}
    passes: list[int] = []

    def count(module: Any, arguments: Any, named: dict[str, Any]) -> None:
        # While the first layers draft, the network says that it has no more of them.
        if network.config.get_text_config(decoder=True).num_hidden_layers == layers:
            tokens = named.get("input_ids", arguments[0] if arguments else None)
            passes.append(0 if tokens is None else int(tokens.shape[-1]))

    inputs = torch.tensor([ids], device=network.device)
    eos = list(model.info.eos_ids) or None
    hook = network.register_forward_pre_hook(count, with_kwargs=True)
    gc.collect()
    gc.disable()
    try:
        cpu, start = time.process_time(), time.perf_counter()
        with torch.inference_mode():
            out = network.generate(
                inputs,
                attention_mask=torch.ones_like(inputs),
                max_new_tokens=max_tokens,
                do_sample=False,
                eos_token_id=eos,
                pad_token_id=eos[0] if eos else 0,
                **options,
            )
        tokens = out[0, len(ids) :].tolist()
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    finally:
        gc.enable()
        hook.remove()
    nodes = sum(passes) - len(ids) + 1
    return _result(model, ids, tokens, seconds, cpu, len(passes), max(nodes, len(passes)))


def _result(
    model: Model, ids: Sequence[int], tokens: list[int], seconds: float, cpu: float, steps: int, nodes: int
) -> dict[str, Any]:
    return {
        "tokens": tokens,
        "text": model.decode(tokens),
        "prompt_tokens": len(ids),
        "seconds": seconds,
        "cpu_seconds": cpu,
        "prefill_seconds": 0.0,
        "steps": steps,
        "drafted": nodes - steps,
        # Each pass gives one token of its own.
        "accepted": max(0, len(tokens) - steps) if nodes > steps else 0,
        "nodes": nodes,
        "draft_seconds": 0.0,
        "forward_seconds": 0.0,
        "other_seconds": 0.0,
        "runs": {},
        "offered": [],
        "taken": [],
    }


def _gguf(job: Job) -> Path:
    """The file that llama-cpp-python is to open.

    Raises:
        UserError: the model is no GGUF file.
    """
    info = job.model.info
    if info.backend != "llama.cpp":
        raise UserError("llama-cpp can only be compared on GGUF files. Choose one with --model, or leave it out of --against.")
    return Path(info.path)


def _llama_cpp(job: Job, name: str, ids: list[int], values: Mapping[str, int], max_tokens: int) -> dict[str, Any]:
    from llama_cpp import Llama
    from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

    model, file = job.model, _gguf(job)
    import torch

    def open_file() -> Any:
        draft = LlamaPromptLookupDecoding(values["ngram"], values["tokens"]) if name == "lookup" else None
        # Scores of every position are what drafts are verified with; without a draft model the last one's do.
        return Llama(
            str(file),
            n_ctx=min(model.info.context, 8192),
            n_threads=torch.get_num_threads(),
            n_gpu_layers=0 if model.info.device == "cpu" else -1,
            logits_all=draft is not None,
            draft_model=draft,
            verbose=False,
        )

    llama = _once(job, f"llama-{name}-{sorted(values.items())}", open_file)
    ends = set(model.info.eos_ids)
    tokens: list[int] = []
    passes: list[int] = []
    inner = llama.eval

    def evaluate(batch: Sequence[int]) -> None:
        passes.append(len(batch))
        inner(batch)

    llama.eval = evaluate
    llama.reset()
    gc.collect()
    gc.disable()
    try:
        cpu, start = time.process_time(), time.perf_counter()
        # `create_completion` is this generator and detokenization; the generator gives ids, which can be compared.
        for token in llama.generate(ids, temp=0.0, repeat_penalty=1.0, top_k=1, reset=True):
            tokens.append(int(token))
            if token in ends or len(tokens) >= max_tokens:
                break
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    finally:
        gc.enable()
        llama.eval = inner
    nodes = sum(passes) - len(ids) + 1
    return _result(model, ids, tokens, seconds, cpu, len(passes), max(nodes, len(passes)))
