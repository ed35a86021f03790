"""Loads a causal language model in a folder with transformers, and proves what it can do here."""

from __future__ import annotations

import gc
import inspect
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm  # type: ignore[import-untyped]
from transformers import AutoConfig, AutoModelForCausalLM
from transformers import __version__ as transformers_version
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
from transformers.utils import logging

from ...errors import Cancelled, UserError, counted, first_line
from ..base import Session
from ..chat_template import given_template
from ..codec import CodecModel
from ..files.checkpoint import check_folder, int8_rows, read_json, shown
from ..files.model_card import read_card
from ..files.sampling import read_recommended
from ..info import ModelInfo, token_id
from ..kept import identity
from ..options import INT8, UNKNOWN_CONTEXT, LoadOptions, StageProgress, cpu_threads
from ..pass_times import TOKENS as TIMED_TOKENS
from ..pass_times import Curve, given_curve, kept_curve, pass_seconds
from ..proof import attempt, out_of_memory
from ..proof_text import proof_text
from ..rounding import LARGE, TOKENS, ticking
from ..transfer import accelerator
from .devices import choose_device, choose_dtype, device_name, over_several, quick_in_bfloat16, thread_counts, too_big
from .graphs import chosen_graphs
from .lean.int8 import quantize, read_scales
from .lean.int8 import works as int8_works
from .lean.lean import of_family
from .masks import native_plan
from .plain import PlainSession, open_session
from .proof import Proof
from .prove import PASSES, Proven, prove, with_bits
from .runner import Runner
from .tokenizer import TextCodec, eos_ids

ATTENTION = (None, "eager", "sdpa", "flex_attention")
"""Kinds of attention that a configuration may ask for; of any other transformers fetches native code."""

MANY = 50_000_000
"""Parameters from which on numbers of threads are compared: passes take milliseconds, of which Python's share is small."""

QUIET = 40
"""logging.ERROR: what transformers says below that, a user cannot act on."""

BFLOAT16 = "Runs in bfloat16, the type of its file, in which this CPU is faster. Use --dtype float32 for the wider type."


class TransformersModel(CodecModel):
    """A causal language model in memory (see `load_transformers`)."""

    def __init__(self, proven: Proven, codec: TextCodec, info: ModelInfo) -> None:
        self._runner: Runner | None = proven.runner
        codec.ends = info.eos_ids
        self._codec = codec
        self.thoughts = codec.thoughts
        self._feeding = proven.feeding
        self._proof: Proof | None = proven.proof
        self.info = info

    @property
    def module(self) -> Any:
        """transformers' own module, whose embeddings and LM head trained drafters share.

        Raises:
            UserError: the model has been closed.
        """
        return self._loaded.module

    @property
    def _loaded(self) -> Runner:
        if self._runner is None:
            raise UserError(f"{self.info.name} is no longer loaded. Load it again.")
        return self._runner

    def open_session(self, context: int | None = None, taps: Sequence[int] = ()) -> Session:
        """Open a new, empty KV cache; memory is taken as it fills (see `Model.open_session`)."""
        runner = self._loaded
        size, taps = self.size(context), self.tapped(taps)
        if self.info.capabilities.chain:
            return open_session(runner, size, taps)
        return PlainSession(runner, size, self._feeding)

    def states_work(self) -> bool:
        """Whether hidden states are the model's own (see `Model.states_work`): two passes."""
        assert self._proof is not None
        with _quiet():
            works = attempt(self._proof.states_work, self._loaded, self.info.capabilities.tree)
        self._proof = None  # asked once
        return works

    def close(self) -> None:
        """Free the weights; sessions that are open keep them until they are closed and dropped."""
        gpu = accelerator(self._runner.device) if self._runner is not None else None
        self._runner = self._proof = None
        gc.collect()
        if gpu is not None:
            gpu.empty_cache()


def load_transformers(
    folder: Path,
    name: str,
    options: LoadOptions,
    *,
    progress: StageProgress | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> TransformersModel:
    """Load the model in a folder with config.json, *.safetensors and the tokenizer's files.

    Args:
        folder, name: of the model; the name is as the user gave it.
        options: device, dtype, context, threads.
        progress: called in the stages "weights" (tensors) and "check" (forward passes of the proof).
        cancelled: polled between tensors and between passes; answering True raises Cancelled.

    Raises:
        UserError: the folder holds no model that can be loaded here; says why and what to do.
    """
    start = time.perf_counter()
    template = given_template(options.chat_template)
    device = choose_device(options.device)
    files = check_folder(folder)
    whole = int8_rows(read_json(folder / "config.json"))
    if whole and options.dtype == "auto" and device.type == "cpu" and int8_works():
        options = replace(options, dtype=INT8)
    dtype = choose_dtype(options.dtype, device)
    if options.threads is not None or "OMP_NUM_THREADS" not in os.environ:  # which torch goes by itself
        torch.set_num_threads(cpu_threads(options.threads))
    int8 = options.dtype == INT8
    with shown(folder, files, bare=whole and int8) as view:
        config = _config(view)
        limit = context_limit(config)
        options.size(name, limit)  # refused before the weights are read
        codec = TextCodec(view, 0, template)
        # Nothing is lost in the file's own type, while float32 would take twice as long to read.
        half = options.dtype == "auto" and device.type == "cpu" and config.dtype == torch.bfloat16
        half = half and quick_in_bfloat16()
        if half:
            dtype = torch.bfloat16
        item = dtype.itemsize if dtype is not None else None
        needed = read_card(folder).weight_bytes(1 if int8 else item)
        spread = over_several(needed, device, options.device, name)
        try:
            module, missing = _read(view, config, dtype, "auto" if spread else {"": device}, progress, cancelled)
            parameters = sum(p.numel() for p in module.parameters())
            if int8 and not missing:
                if whole:
                    read_scales(module, files)
                quantize(module, of_family(module), cancelled)
                if 2 * sum(p.numel() for p in module.parameters()) > parameters:
                    raise UserError(f"Most of {name}'s weights are of no kind that int8 knows (experts). Use --dtype bfloat16.")
        except (Cancelled, UserError):
            raise
        except Exception as error:
            if out_of_memory(error):
                raise too_big(name, needed, device) from None
            raise UserError(f"Cannot load {name} ({first_line(error)}). Download it again, or use another model.") from None
    if missing:
        raise UserError(
            f"The weights in {folder} are missing {counted(len(missing), 'tensor')} that config.json asks for, such as "
            f"{missing[0]}. Download the model again."
        )
    model = prove_model(
        module, parameters, codec, name=name, folder=folder, options=options, progress=progress, cancelled=cancelled
    )
    model.info = replace(model.info, load_seconds=time.perf_counter() - start)
    if not half:
        return model
    if model.info.capabilities.exact or options.exact == "off":
        model.info = replace(model.info, notes=(*model.info.notes, BFLOAT16))
        return model
    model.close()
    del module
    return load_transformers(folder, name, replace(options, dtype="float32"), progress=progress, cancelled=cancelled)


def prove_model(
    module: Any,
    parameters: int,
    codec: TextCodec,
    *,
    name: str,
    folder: Path,
    options: LoadOptions,
    progress: StageProgress | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> TransformersModel:
    """Prove what loaded weights can do, and make the model around them; `parameters` is their number."""
    config = module.config.get_text_config(decoder=True)
    limit = context_limit(module.config)
    names = inspect.signature(module.forward).parameters
    embedding, head = module.get_input_embeddings().weight, module.get_output_embeddings()
    runner = Runner(
        module,
        native_plan(config),
        specs=(),
        dtype=module.dtype,
        device=embedding.device,
        takes_positions="position_ids" in names,
        takes_rows="logits_to_keep" in names,
        graphs=chosen_graphs(embedding.device),
    )
    codec.vocabulary = int(config.vocab_size if head is None else head.weight.shape[0])
    tick = ticking(PASSES, progress, cancelled)
    curve: Curve = ()
    timed = 0.0
    try:
        with _quiet():
            text = proof_text(codec, embedding.shape[0], max(TOKENS, TIMED_TOKENS))
            proven = prove(runner, config, text, tick, limit, options.exact)
            long = runner.device.type != "cpu" or parameters <= LARGE
            proven = with_bits(proven, text, tick, context=limit, long=long, exact=options.exact)
            if proven.capabilities.chain:
                curve, timed = _pass_times(proven.runner, text, parameters, folder, limit=limit, options=options, tick=tick)
    except (Cancelled, UserError):
        raise
    except Exception as error:
        if out_of_memory(error):
            raise UserError(f"{name} fits in memory, but leaves no room to run it. Use a smaller model or dtype.") from None
        raise UserError(
            f"transformers cannot run {name} ({first_line(error)}). Update transformers, or use another model."
        ) from None
    if progress is not None:
        progress("check", PASSES, PASSES)
    notes = dict.fromkeys(why for what, why in proven.capabilities.reasons.items() if what not in ("layers", "states"))
    info = ModelInfo(
        name=name,
        backend="transformers",
        device=device_name(module, runner.device),
        dtype=INT8 if options.dtype == INT8 else str(module.dtype).removeprefix("torch."),
        architecture=type(module).__name__,
        parameters=parameters,
        layers=int(config.num_hidden_layers),
        vocabulary=codec.vocabulary,
        embeddings=embedding.shape[0],
        context=options.size(name, limit),
        eos_ids=eos_ids(module, codec),
        has_template=codec.has_template,
        capabilities=proven.capabilities,
        pard_token=token_id(getattr(config, "pard_token", None), embedding.shape[0]),
        path=str(folder),
        notes=tuple(notes),
        pass_seconds=given_curve() or curve,
        timed=timed,
        active=active(config),
        thinking=codec.thoughts.info if codec.thoughts is not None else None,
        sampling=read_recommended(folder),
    )
    return TransformersModel(proven, codec, info)


CHOSEN = ("num_experts_per_tok", "moe_topk", "moe_top_k", "top_k_experts", "moe_k")
"""Keys of a configuration: the number of experts for each token."""
EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
"""Keys of a configuration: the number of experts."""


def active(config: Any) -> float:
    """Return the share of a mixture's experts that a token is sent to; 1 for a model without."""
    chosen, experts = (next((n for key in keys if (n := getattr(config, key, None))), 0) for keys in (CHOSEN, EXPERTS))
    return min(1.0, chosen / experts) if chosen and experts and isinstance(experts, int) else 1.0


def _pass_times(
    runner: Runner,
    text: Sequence[int],
    parameters: int,
    folder: Path,
    *,
    limit: int,
    options: LoadOptions,
    tick: Callable[[], None],
) -> tuple[Curve, float]:
    """Measure the seconds of passes; return them and the time of the measurement. For a large model on a CPU, find the number
    of threads on which passes are quickest, and set it."""
    cpu = runner.device.type == "cpu"
    about = identity(folder.iterdir()), transformers_version, str(torch.__version__), device_name(runner.module, runner.device)
    measurements: dict[int, tuple[Curve, float]] = {}
    choosing = cpu and parameters >= MANY
    for count in thread_counts(options.threads) if choosing else [torch.get_num_threads()]:
        if cpu:
            torch.set_num_threads(count)
        session = open_session(runner, min(limit, TIMED_TOKENS))
        measure = partial(pass_seconds, session, text, tick, cpu=cpu)
        measurements[count] = kept_curve((*about, options.dtype, str(runner.dtype), options.exact, count), measure)
    best = min(measurements, key=lambda count: sum(t for nodes, t in measurements[count][0] if nodes in (1, 8)))
    if choosing:
        torch.set_num_threads(best)
    return measurements[best]


def _config(folder: Path) -> Any:
    """Read the folder's configuration, if it is a causal language model's that transformers knows."""
    raw = read_json(folder / "config.json")
    kind = raw.get("model_type")
    if "auto_map" in raw and kind not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        raise UserError(
            f"The model in {folder} brings its own Python code, which specchat does not run. Use a model that transformers "
            "supports directly."
        )
    try:
        config = AutoConfig.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
    except Exception as error:
        raise UserError(
            f"transformers cannot read the configuration in {folder} ({first_line(error)}). Update transformers, or use "
            "another model."
        ) from None
    causal: set[str] = set()
    for names in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values():
        causal.update([names] if isinstance(names, str) else names)
    built = raw.get("architectures") or []
    # Of a model that sees images too, transformers may have a class for its language part, as of Qwen3.5.
    class_name = str(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(str(kind), ""))
    writes = not built or causal & set(built) or class_name.replace("ForCausalLM", "ForConditionalGeneration") in built
    if kind not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES or not writes or config.is_encoder_decoder:
        raise UserError(
            f"The model in {folder} ({', '.join(built) or kind}) is not a causal language model, so it cannot generate text. "
            "Use one whose name ends in ForCausalLM."
        )
    for part in (config, *(getattr(config, name) for name in config.sub_configs)):
        if part is not None and part._attn_implementation not in ATTENTION:
            part._attn_implementation = None
    return config


def context_limit(config: Any) -> int:
    """Return the most tokens that a configuration's model takes."""
    config = config.get_text_config(decoder=True)
    for key in ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length"):
        limit = getattr(config, key, None)
        if isinstance(limit, int) and limit > 0:
            return limit
    return UNKNOWN_CONTEXT


def _read(
    folder: Path,
    config: Any,
    dtype: torch.dtype | None,
    device_map: Any,
    progress: StageProgress | None,
    cancelled: Callable[[], bool] | None,
) -> tuple[Any, list[str]]:
    """Read the weights; return the module and the names of tensors that the files lack."""
    with _watched(progress, cancelled):
        loader: Any = AutoModelForCausalLM
        module, report = loader.from_pretrained(
            str(folder),
            config=config,
            dtype="auto" if dtype is None else dtype,
            device_map=device_map,
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=True,
            output_loading_info=True,
        )
    module.eval()
    module.requires_grad_(False)
    return module, sorted(report["missing_keys"])


@contextmanager
def _watched(progress: StageProgress | None, cancelled: Callable[[], bool] | None) -> Iterator[None]:
    """Turn transformers' progress bars into calls of `progress` in this context."""

    class Bar(tqdm):  # type: ignore[misc]
        def __iter__(self) -> Iterator[Any]:
            for done, item in enumerate(self.iterable, 1):
                if cancelled is not None and cancelled():
                    raise Cancelled
                yield item
                if progress is not None:
                    progress("weights", done, self.total or 0)

    def hook(_factory: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        return Bar(*args, **{**options, "disable": True})

    before = logging.set_tqdm_hook(hook)
    try:
        with _quiet():
            yield
    finally:
        logging.set_tqdm_hook(before)


@contextmanager
def _quiet() -> Iterator[None]:
    verbosity = logging.get_verbosity()
    logging.set_verbosity(QUIET)
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
