"""Tokens per step of `suffix` and of its authors' own code on recorded answers, counted in both ways.

    PYTHONPATH=… python -m specchat.benchmarks.methods.suffix_reference DATA_FOLDER TOKENIZER_FOLDER

DATA_FOLDER holds JSONL files of {"prompt", "response"}; every file is a set. A figure is the mean over a set's records, EOS
counted, 64 tokens deep, from the text alone. The authors' rows need the package arctic-inference (0.1.1); where it is not
installed they are left out. Of its source `csrc/suffix_decoding` is all that has to be built; PYTHONPATH names the source then.

The prompt's pass gives the answer's first token. Either it carries no draft, as `specchat replay` and the published figures of
prompt lookup count; or it carries one, as in the chat and in the authors' simulator.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from specchat.backends.transcripts import FileTokenizer, encode_transcript, read_transcripts
from specchat.decoders.methods.suffix import Suffix, SuffixParams
from specchat.decoders.replay import replay

DEPTH = 64

SETTINGS = {"chain, the defaults": SuffixParams(), "tree, factor 4, floor 0": SuffixParams(factor=4.0, floor=0.0, tree=True)}


def ours(prompt: Sequence[int], answer: Sequence[int], params: SuffixParams, drafts_first: bool) -> float:
    """Tokens per step of our method; EOS is the answer's last token."""
    if not drafts_first:
        return replay(prompt, answer, Suffix(params), eos_ids=answer[-1:]).tokens_per_step
    # The pass that "gives" the prompt's last token stands for reading the prompt.
    totals = replay(prompt[:-1], [prompt[-1], *answer], Suffix(params), eos_ids=answer[-1:])
    return (totals.tokens - 1) / (totals.steps - 1)


def theirs(cache: Any, prompt: Sequence[int], answer: Sequence[int], params: SuffixParams, drafts_first: bool) -> float:
    """Tokens per step of the authors' code, by the steps of its simulator."""
    begun = 0 if drafts_first else 1
    text, steps = np.array([*prompt, *answer], np.int32), begun
    cache.start_request(0, text[: len(prompt)])
    cache.add_active_response(0, text[len(prompt) : len(prompt) + begun])
    at = len(prompt) + begun
    while at < len(text):
        draft = cache.speculate(0, text[:at], DEPTH, params.factor, params.offset, params.floor, params.tree)
        children = {pair: node for node, pair in enumerate(zip(draft.parents, draft.token_ids, strict=True))}
        node, end = -1, at
        while end < len(text) and (node, int(text[end])) in children:
            node, end = children[node, int(text[end])], end + 1
        end = min(end + 1, len(text))
        cache.add_active_response(0, text[at:end])
        at, steps = end, steps + 1
    cache.stop_request(0)
    return len(answer) / steps


def main() -> None:
    """Print a row for each implementation, setting and way of counting."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("tokenizer", type=Path)
    options = parser.parse_args()
    tokenizer = FileTokenizer(options.tokenizer)
    sets = {
        path.stem: [
            (prompt, [*answer, tokenizer.eos_id])
            for prompt, answer in (encode_transcript(tokenizer, record) for record in read_transcripts(path))
        ]
        for path in sorted(options.data.glob("*.jsonl"))
    }
    who: dict[str, Callable[[Sequence[int], Sequence[int], SuffixParams, bool], float]] = {"ours": ours}
    try:
        cache = import_module("arctic_inference.suffix_decoding").SuffixDecodingCache(DEPTH, 0)
        who["theirs"] = lambda *arguments: theirs(cache, *arguments)
    except ImportError as error:
        print(f"The authors' code is left out: {error}.")
    print(f"{'':50}" + "".join(f"{name:>17}" for name in sets))
    for label, params in SETTINGS.items():
        for counting, drafts_first in (("prompt's pass alone", False), ("prompt's pass drafts", True)):
            for name, run in who.items():
                figures = [mean(run(prompt, answer, params, drafts_first) for prompt, answer in each) for each in sets.values()]
                print(f"{f'{label}; {counting}; {name}':50}" + "".join(f"{figure:17.3f}" for figure in figures), flush=True)


if __name__ == "__main__":
    main()
