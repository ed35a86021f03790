"""Trials of operations over which llama.cpp may abort: in another process, once for each architecture and version.

python -m specchat.backends.llama.trial inputs FILE    # a pass that notes the inputs of all layers
python -m specchat.backends.llama.trial last FILE      # a pass that hands out the states after the last layer
python -m specchat.backends.llama.trial mtp FILE       # a pass of the model's MTP layer behind one of the model
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal

from ...plain_file import cache_folder, read_json, write_json
from .hidden_states import layer_inputs, next_states
from .library import library, version

LIMIT_SECONDS = 300.0
"""Limit of a trial: the library is imported, the file is opened, and all weights are read once."""

FILE = "trials.json"

CONTEXT = 256
"""Tokens of its caches."""

Trial = Literal["inputs", "last", "mtp"]


def trial_succeeds(trial: Trial, architecture: str, file: Path) -> bool:
    """Whether the installed llama.cpp can do that with models of an architecture: hand out the inputs of all layers
    with the last states, or these alone, or draft with the model's own MTP layer."""
    outcome = _kept().get(f"{trial} {architecture}")
    if outcome is not None and outcome[0] == version():
        return outcome[1]
    command = [sys.executable, "-P", "-m", __spec__.name if __spec__ else __name__, trial, str(file)]
    try:
        code = subprocess.run(command, capture_output=True, timeout=LIMIT_SECONDS, check=False).returncode
    except subprocess.TimeoutExpired:
        return False
    if code in (0, -signal.SIGABRT):  # anything else, such as too little memory, may be over tomorrow
        with suppress(OSError):
            write_json(cache_folder() / FILE, {**_kept(), f"{trial} {architecture}": (version(), code == 0)})
    return code == 0


def trial_failed(trial: Trial, architecture: str) -> bool:
    """Whether the newest trial of a kind failed for an architecture; False if there was none."""
    return not _kept().get(f"{trial} {architecture}", ("", True))[1]


def _kept() -> dict[str, tuple[str, bool]]:
    """Read the outcomes of trials: the version of the library, and success; none where the file is damaged."""
    try:
        outcomes = read_json(cache_folder() / FILE)
        return {name: (str(at), bool(works)) for name, (at, works) in outcomes.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _last(lib: Any, model: Any, inputs: bool = False) -> bool:
    context = _context(lib, model)
    if not context:
        return False
    lib.llama_set_embeddings(context, True)
    switch, where = layer_inputs() or (lambda *_: None, lambda *_: None)
    layers = range(lib.llama_model_n_layer(model)) if inputs else range(0)
    for layer in layers:
        switch(context, layer, True)
    return _reads(lib, context) and bool(lib.llama_get_embeddings(context)) and all(where(context, layer) for layer in layers)


def _mtp(lib: Any, model: Any) -> bool:
    functions = next_states()
    context = _context(lib, model)
    drafting = _context(lib, model, ctx_type=lib.LLAMA_CONTEXT_TYPE_MTP)
    if functions is None or not context or not drafting:
        return False
    switch, where = functions
    switch(context, True, False)
    switch(drafting, True, True)
    width = lib.llama_model_n_embd(model)
    if not _reads(lib, context) or not (states := where(context)):
        return False
    tokens = (lib.llama_token * 2)(0, 1)
    batch = lib.llama_batch_init(2, width, 1)
    batch.n_tokens = 2
    batch.token = tokens
    ctypes.memmove(batch.embd, states, 2 * width * ctypes.sizeof(ctypes.c_float))
    for i in range(2):
        batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0], batch.logits[i] = i, 1, 0, 1
    return not lib.llama_decode(drafting, batch) and bool(where(drafting))


def _context(lib: Any, model: Any, **more: Any) -> Any:
    params = lib.llama_context_default_params()
    params.n_ctx = params.n_batch = params.n_ubatch = CONTEXT
    for name, value in more.items():
        setattr(params, name, value)
    return lib.llama_init_from_model(model, params)


def _reads(lib: Any, context: Any) -> bool:
    tokens = (lib.llama_token * 2)(0, 1)
    return not lib.llama_decode(context, lib.llama_batch_get_one(tokens, 2))


def _try(trial: Callable[[Any, Any], bool], file: str) -> int:
    lib = library()
    params = lib.llama_model_default_params()
    params.n_gpu_layers = 0
    params.load_mtp = trial is _mtp
    params.use_extra_bufts = False  # weights would be rearranged for a single pass
    model = lib.llama_model_load_from_file(os.fsencode(file), params)
    return 0 if model and trial(lib, model) else 1


if __name__ == "__main__":
    trials: dict[str, Callable[[Any, Any], bool]] = {"inputs": partial(_last, inputs=True), "last": _last, "mtp": _mtp}
    raise SystemExit(_try(trials[sys.argv[1]], sys.argv[2]))
