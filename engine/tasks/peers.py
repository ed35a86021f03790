"""Other implementations on the same weights, to compare with: transformers' own `generate` and llama-cpp-python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

from ...backends.base import PREFILL_CHUNK, Model
from ...backends.options import INT8
from ...errors import UserError
from .work import Measured, TaskContext, Timer

if TYPE_CHECKING:
    from ...backends.llama.context import Runtime

PEERS = {"transformers": ("greedy", "lookup", "draft", "early-exit"), "llama-cpp": ("greedy", "lookup")}
"""Packages → the methods that are compared, with the packages' own settings or those of their documentation."""

DRAFT_TOKENS = 10
"""Longest draft of their lookup."""

NGRAM = 2
"""Tokens that llama-cpp-python looks up."""

_networks: WeakKeyDictionary[Model, dict[str, Any]] = WeakKeyDictionary()
"""The peers' objects for a model, freed with it."""


def answer(job: TaskContext, method: str, ids: Sequence[int], max_tokens: int) -> Measured:
    """Have another implementation write a greedy answer; return its figures.

    Raises:
        UserError: there is no such implementation for this model.
    """
    package, name = _parse_method(method)
    run = _transformers if package == "transformers" else _llama_cpp
    return run(job, name, list(ids), max_tokens)


def prepare(job: TaskContext, method: str) -> None:
    """Load another implementation's objects, so that errors come before anything is measured.

    Raises:
        UserError: it cannot run on this model; says why.
    """
    package, name = _parse_method(method)
    if package == "transformers":
        _options(job, name)
    else:
        _gguf(job)


def _parse_method(method: str) -> tuple[str, str]:
    package, _, name = method.partition("/")
    if name not in PEERS.get(package, ()):
        raise UserError(f"There is no {method!r} to compare with: choose transformers/NAME or llama-cpp/NAME.")
    return package, name


def _once(job: TaskContext, key: str, make: Callable[[], Any]) -> Any:
    """Call `make` once for the loaded model and return its result."""
    store = _networks.setdefault(job.model, {})
    if key not in store:
        store[key] = make()
    return store[key]


def _network(model: Model) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    info = model.info
    if info.backend != "transformers":
        raise UserError("transformers can only be compared on safetensors models. Leave it out of --against.")
    if info.dtype == INT8:
        raise UserError("transformers has no int8 to compare with. Leave out --dtype int8, or --against.")
    try:
        network: Any = AutoModelForCausalLM.from_pretrained(info.path, dtype=getattr(torch, info.dtype), local_files_only=True)
    except (KeyError, OSError, ValueError):
        raise UserError(f"transformers cannot load {info.name} by itself. Leave it out of --against.") from None
    return network.to(info.device.split(",")[0].split(" ")[0]).eval()


def _options(job: TaskContext, name: str) -> dict[str, Any]:
    """Return the arguments of `generate` for a method, and load the objects that they need."""
    network = _once(job, "network", lambda: _network(job.model))
    match name:
        case "lookup":
            return {"prompt_lookup_num_tokens": DRAFT_TOKENS}
        case "early-exit":
            layers = network.config.get_text_config(decoder=True).num_hidden_layers
            return {"assistant_early_exit": max(1, layers // 2)}
        case "draft":
            drafts = job.drafts.get() if job.drafts else []
            if not drafts:
                raise UserError("transformers/draft needs a draft model. Load one with --draft-model.")
            return {"assistant_model": _once(job, "assistant", lambda: _network(drafts[0]))}
    return {}


def _transformers(job: TaskContext, name: str, ids: list[int], max_tokens: int) -> Measured:
    import torch

    model, options = job.model, _options(job, name)
    network = _networks[model]["network"]
    layers = network.config.get_text_config(decoder=True).num_hidden_layers
    passes: list[int] = []

    def count(module: Any, arguments: Any, named: dict[str, Any]) -> None:
        # While the first layers draft, the network says that it has no more of them.
        if network.config.get_text_config(decoder=True).num_hidden_layers == layers:
            tokens = named.get("input_ids", arguments[0] if arguments else None)
            passes.append(0 if tokens is None else int(tokens.shape[-1]))

    inputs = torch.tensor([ids], device=network.device)
    eos = list(model.info.eos_ids) or None
    hook = network.register_forward_pre_hook(count, with_kwargs=True)
    try:
        with Timer() as timer, torch.inference_mode():
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
    finally:
        hook.remove()
    return _result(model, ids, tokens, timer, passes)


def _result(model: Model, ids: Sequence[int], tokens: list[int], timer: Timer, passes: Sequence[int]) -> Measured:
    """Collect the figures; `passes` has the number of tokens of each pass."""
    steps, nodes = len(passes), max(len(passes), sum(passes) - len(ids) + 1)
    return Measured(
        tokens=tokens,
        text=model.decode(tokens),
        prompt_tokens=len(ids),
        seconds=timer.seconds,
        cpu_seconds=timer.cpu_seconds,
        steps=steps,
        drafted=nodes - steps,
        # Each pass also gives a bonus token.
        accepted=max(0, len(tokens) - steps) if nodes > steps else 0,
        nodes=nodes,
    )


def _gguf(job: TaskContext) -> Path:
    info = job.model.info
    if info.backend != "llama.cpp":
        raise UserError("llama-cpp can only be compared on GGUF files. Choose one with --model, or leave it out of --against.")
    return Path(info.path)


def same_settings(model: Model) -> dict[str, Any]:
    """Return the settings with which llama-cpp-python computes as a model on llama.cpp does: other threads, another attention
    or another type of cache would change the speed and the near ties."""
    from ...backends.llama.options import FLASH

    runtime: Runtime = cast(Any, model).runtime
    return {
        "n_batch": PREFILL_CHUNK,
        "n_ubatch": PREFILL_CHUNK,
        "n_threads": runtime.threads,
        "n_threads_batch": runtime.threads,
        "n_gpu_layers": runtime.gpu_layers,
        "main_gpu": runtime.main_gpu,
        "split_mode": runtime.split_mode,
        "flash_attn": runtime.flash_attention != FLASH["off"],
        "type_k": runtime.type_k,
        "type_v": runtime.type_v,
        "swa_full": True,
    }


def _llama_cpp(job: TaskContext, name: str, ids: list[int], max_tokens: int) -> Measured:
    from llama_cpp import Llama
    from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

    model, file = job.model, _gguf(job)

    def open_file() -> Any:
        draft = LlamaPromptLookupDecoding(NGRAM, DRAFT_TOKENS) if name == "lookup" else None
        # Drafters are verified with the scores of every position; without a draft model the last one's are enough.
        return Llama(
            str(file),
            n_ctx=min(model.info.context, 8192),
            logits_all=draft is not None,
            draft_model=draft,
            verbose=False,
            **same_settings(model),
        )

    llama = _once(job, f"llama-{name}", open_file)
    ends = set(model.info.eos_ids)
    tokens: list[int] = []
    passes: list[int] = []
    inner = llama.eval

    def evaluate(batch: Sequence[int]) -> None:
        passes.append(len(batch))
        inner(batch)

    llama.eval = evaluate
    llama.reset()
    try:
        with Timer() as timer:
            # `create_completion` is this generator and detokenization; the generator gives ids, which can be compared.
            for token in llama.generate(ids, temp=0.0, repeat_penalty=1.0, top_k=1, reset=True):
                tokens.append(int(token))
                if token in ends or len(tokens) >= max_tokens:
                    break
    finally:
        llama.eval = inner
    return _result(model, ids, tokens, timer, passes)
