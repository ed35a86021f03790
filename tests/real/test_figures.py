"""Figures of real models: passes by size, loads, races, doctor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from specchat.backends import ROOT, Model
from specchat.decoders.conversation import encode_prompt
from specchat.engine.client import EngineClient
from specchat.engine.messages import Failed, Finished, Steps

from .models import GREEDY, HEAD, THREADS, TOKENS, fresh, methods, suite, texts
from .page import Page
from .prompts import prompts

pytestmark = suite

SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 32)
ROUNDS = 7


def test_passes_by_size(model: Model, path: Path, page: Page) -> None:
    """Cost of a pass, and what larger passes do to the text's own choices: chains over plain answers, as drafts would be."""
    turned, places, equal, leads = dict.fromkeys(SIZES, 0), 0, dict.fromkeys(SIZES, True), dict.fromkeys(SIZES, 0.0)
    least = dict.fromkeys(SIZES, float("inf"))
    session = model.open_session()
    for _, prompt in texts(model):
        chain = [prompt[-1], *fresh(model, prompt)[:-1]]
        places += len(chain)
        alone = None
        for size in SIZES:
            session.rewind(0)
            session.prefill(prompt[:-1])
            rows = []
            for start in range(0, len(chain), size):
                part = chain[start : start + size]
                begun = time.process_time()
                scores = session.evaluate(part, range(ROOT, len(part) - 1))
                picks = scores.choose(GREEDY)
                seconds = time.process_time() - begun
                if len(part) == size:
                    least[size] = min(least[size], seconds)
                best = [pair for row in scores.top(2) for _, pair in row]
                rows += list(zip(picks, best[::2], [a - b for a, b in zip(best[::2], best[1::2], strict=True)], strict=True))
                session.commit(range(len(part)))
            alone = alone or rows
            for one, many in zip(alone, rows, strict=True):
                turned[size] += one[0] != many[0]
                equal[size] &= one == many
                leads[size] = max(leads[size], abs(one[2] - many[2]))
    session.close()
    rows_of = [
        [size, f"{least[size] * 1e3:.1f}", f"{least[size] / least[1]:.2f}", *(
            ["yes" if equal[size] else "no", f"{turned[size]} of {places}", f"{leads[size]:.2f}"]
        )]
        for size in SIZES
        if least[size] < float("inf")
    ]  # fmt: skip
    head = ("nodes", "CPU ms, the least", "÷ one node", "scores equal", "choices turned", "the lead moved by at most")
    page.table(path.name, "Passes by size, as chains over plain answers", head, rows_of)


def _load(runtime: str, path: Path, context: int, cache: Path) -> dict[str, float]:
    command = [sys.executable, "-P", "-m", "specchat.tests.real.loads", runtime, str(path), str(context), str(THREADS or 0)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "SPECCHAT_CACHE": str(cache)})
    assert ran.returncode == 0, ran.stderr[-2_000:]
    told: dict[str, float] = json.loads(ran.stdout.splitlines()[-1])
    return told


def test_loads(model: Model, path: Path, page: Page, tmp_path: Path) -> None:
    """CPU seconds and resident memory of a load beside the library's own; reported, as both depend on the machine."""
    own = model.info.backend
    context = model.info.context
    rows = [
        [name, f"{told['seconds']:.1f}", f"{told['megabytes']:,.0f}"]
        for name, told in (
            (own, _load(own, path, context, tmp_path)),
            ("specchat, first start", _load("specchat", path, 0, tmp_path)),
            ("specchat, second start", _load("specchat", path, 0, tmp_path)),
        )
    ]
    page.table(path.name, f"Loads (context {context:,})", ("loaded by", "CPU seconds", "resident MB"), rows)


def test_races_through_the_engine(model: Model, path: Path, page: Page, tmp_path: Path) -> None:
    """Lanes side by side in the engine: all write what plain decoding wrote here."""
    kind, text = prompts(1)[0]
    wanted = fresh(model, encode_prompt(model, text))
    promised = ["greedy", *methods(model, model.info.capabilities.identical)]
    with EngineClient(log=tmp_path / "engine.log") as client:
        load = client.load(str(path), threads=THREADS, draft_model=HEAD or None)
        failed = [event for event in client.stream(load) if isinstance(event, Failed)]
        assert not failed
        lanes = {client.generate(text, method=name, lane=name, max_tokens=TOKENS): name for name in promised}
        tokens: dict[int, list[int]] = {id: [] for id in lanes}
        running = set(lanes)
        while running and (event := client.wait(600)) is not None:
            match event:
                case Steps():
                    for step in event.steps:
                        tokens[event.id] += step.tokens
                case Finished():
                    running.discard(event.id)
                case Failed():
                    raise AssertionError(event)
    assert not running
    different = [name for id, name in lanes.items() if tokens[id] != wanted]
    page.add(path.name, f"**A race of {len(lanes)} lanes** ({kind}): {len(different)} differ {different or ''}", "")
    assert not different or model.info.capabilities.identical != "identical"


def test_doctor(path: Path, page: Page) -> None:
    """`specchat doctor MODEL` says what the model can do, and ends well."""
    ran = subprocess.run([sys.executable, "-m", "specchat", "doctor", str(path)], capture_output=True, text=True, check=False)
    page.add(path.name, f"**`specchat doctor`** ended with {ran.returncode}:", "", "```", *ran.stdout.splitlines(), "```", "")
    assert "Traceback" not in ran.stdout + ran.stderr
    assert ran.returncode == 0, ran.stderr[-2_000:]
