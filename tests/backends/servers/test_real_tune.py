"""The options that `tune` prints for servers: a real server takes them, and gives the tokens a pass that were predicted.

Run with `SPECCHAT_SERVERS=1`; `tests/fakes/real_servers.py` says which servers there are.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from specchat.backends.loading import builtin_gguf, builtin_path
from specchat.engine.servers.measuring import measure_answer

from ...fakes.real_servers import RealServer, kinds, real_server
from .test_real import LIMIT, PROMPTS, opened

pytestmark = pytest.mark.skipif(not os.environ.get("SPECCHAT_SERVERS"), reason="SPECCHAT_SERVERS=1 starts real servers")

APART = 0.05
"""How far from what was predicted the measured tokens a pass may be."""


def run(home: Path, *words: object) -> Any:
    own = {name: str(home / name) for name in ("SPECCHAT_CONFIG", "SPECCHAT_DATA", "SPECCHAT_CACHE")}
    command = [sys.executable, "-m", "specchat", *map(str, words)]
    done = subprocess.run(command, check=False, env=os.environ | own, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("engine", ["llama-server", "vllm"])
def test_what_was_predicted_comes_true(engine: str, tmp_path: Path) -> None:
    if f"{engine} plain" not in kinds():
        pytest.skip(f"no {engine} here")
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"prompt": prompt}) + "\n" for prompt in PROMPTS))
    draft = builtin_path("builtin-draft") if engine == "vllm" else builtin_gguf("builtin-draft")
    runtime = "transformers" if engine == "vllm" else "llama.cpp"
    record, limit = tmp_path / "record.jsonl", ("--max-tokens", LIMIT)
    with real_server(f"{engine} plain", tmp_path / "plain.log") as plain:
        model = f"{plain.url}#{plain.model}"
        draft_options = ("--draft-model", draft)
        found = run(tmp_path, "tune", prompts, "--model", model, *draft_options, *limit, "--json")["servers"]
        run(tmp_path, "bench", prompts, "--model", model, *limit, "--record", record, "--json")
    assert found
    more = {"vllm": ["vllm/ngram:num_speculative_tokens=3"], "llama-server": ["llama-server/draft-simple:n_max=3"]}[engine]
    for label in more:  # what the server was asked before is enough to predict other settings
        words = ("replay", record, "--methods", label, "--draft-model", draft, "--json")
        (row,) = run(tmp_path, "--backend", runtime, *words)["results"]
        found.append({**row, "flags": flags_of(label, str(draft))})
    for number, line in enumerate(found):
        flags = shlex.split(line["flags"])
        if engine == "vllm":
            flags += ["--per-request-spec-decode-metrics", "detailed"]
        with real_server(f"{engine} plain", tmp_path / f"{number}.log", flags) as server:
            rows = asyncio.run(answers(server))
        tokens, steps, drafted, accepted = (sum(row[key] for row in rows) for key in ("count", "steps", "drafted", "accepted"))
        predicted, measured = line["tokens_per_step"], tokens / steps
        sure = ", ".join(f"{name} {count}" for name, count in Counter(row["certainty"] for row in rows).items())
        print(
            f"\n{line['flags']}: predicted {predicted:.3f}, measured {measured:.3f} ({measured / predicted - 1:+.1%}); "
            f"accepted {line['acceptance_rate']:.1%}, {accepted / drafted:.1%}; {sure}"
        )
        assert measured == pytest.approx(predicted, rel=APART), line["flags"]


async def answers(server: RealServer) -> list[dict[str, Any]]:
    """Each prompt once and nothing else: ngram-mod learns from whatever it is asked."""
    model = await opened(server)
    found = [await measure_answer(model, prompt=prompt, max_tokens=LIMIT) for prompt in PROMPTS]
    await model.close()
    return found


def flags_of(label: str, draft: str) -> str:
    from specchat.decoders.base import parse_params
    from specchat.decoders.servers.table import get_served

    name, *pairs = label.split(":")
    method = get_served(name)
    return method.flags(parse_params(method, dict(pair.split("=") for pair in pairs)), draft)
