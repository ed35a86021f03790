"""Lengths from which on a model may read its text otherwise, and a twin of the model that does so at once."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

SHORT = 4
"""Windows and chunks of the proof, whose text is a little longer."""

WINDOWS = ("sliding_window", "attention_chunk_size")
"""Those that our masks know (see `masks.py`), and that models read from their configuration in every pass."""

_LENGTH = re.compile(r"window|chunk_?size|chunk_length|block_size|context_length|_len$|distance|local_attention|index_topk$")
_OTHER = re.compile(r"pattern|layers|^num_|^max_|feed_forward|lm_head")


def unknown_lengths(config: Any) -> dict[str, int]:
    """What in a (text) configuration names a length that no mask of ours knows, such as GPT-Neo's `window_size`.

    Only what its class declares counts: no model of transformers reads anything else.
    """
    declared = {name for kind in type(config).__mro__ for name in (*vars(kind), *getattr(kind, "__annotations__", ()))}
    return {
        name: value
        for name, value in config.to_dict().items()
        if isinstance(value, int) and not isinstance(value, bool) and value > SHORT
        if name in declared and name not in WINDOWS and _LENGTH.search(name) and not _OTHER.search(name)
    }


@contextmanager
def narrowed(config: Any) -> Iterator[None]:
    """Sliding windows and chunks of SHORT tokens in this configuration: a real one is longer than a text worth testing with."""
    before = {name: getattr(config, name) for name in WINDOWS if getattr(config, name, None) is not None}
    for name in before:
        setattr(config, name, SHORT)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(config, name, value)


def twin_of(module: Any, lengths: Mapping[str, int]) -> Any:
    """A model with the same weights in which these lengths are SHORT. It takes no memory of its own.

    Raises:
        Exception: of any kind, where this model cannot be built so.
    """
    from accelerate import init_empty_weights

    config = copy.deepcopy(module.config)
    text = config.get_text_config(decoder=True)
    for name in lengths:
        setattr(text, name, SHORT)
    with init_empty_weights(include_buffers=False):
        twin = type(module)._from_config(config, dtype=module.dtype, attn_implementation=module.config._attn_implementation)
    twin.load_state_dict(module.state_dict(), strict=False, assign=True)
    twin.tie_weights()
    for buffer in twin.buffers():
        buffer.data = buffer.data.to(module.device)
    return twin.eval()
