"""What llama-server drafts with the built-in EAGLE-3 head, draft by draft, against our head session.

Run with `SPECCHAT_SERVERS=1` and `SPECCHAT_LLAMA_SERVER`. `SPECCHAT_RECORD=FILE` writes the drafts of prompts that are computed
anew, which tests/builtin/test_drafters.py compares with ours.
"""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest

from specchat.backends import LoadOptions, Model, load_model
from specchat.backends.heads.base import Head, PathHead
from specchat.backends.loading import find_model

from ...fakes.real_servers import RealServer, kinds, real_server
from .test_real import LIMIT, PROMPTS

pytestmark = [
    pytest.mark.skipif(not os.environ.get("SPECCHAT_SERVERS"), reason="SPECCHAT_SERVERS=1 starts real servers"),
    pytest.mark.skipif("llama-server draft-eagle3" not in kinds(), reason="SPECCHAT_LLAMA_SERVER names no llama-server"),
]

SAID = re.compile(rb"draft candidate +0, pos +\d+: +(\d+) |accepted +(\d+)/ *(\d+) draft tokens\n")
"""Lines of its log: a token that it drafts, and the end of a pass."""

ALIKE = LoadOptions(device="cpu", backend="llama.cpp", threads=1, kv_type="f16", flash_attention="on")
"""As llama-server runs. Our own default keeps keys as bfloat16, so that a node's bits do not depend on the pass."""


def passes(log: bytes) -> list[dict[str, Any]]:
    """What it drafted in each pass, and how many it accepted."""
    found, draft = list[dict[str, Any]](), list[int]()
    for token, accepted, drafted in SAID.findall(log):
        if token:
            draft.append(int(token))
        else:
            # Near the limit of tokens, it verifies fewer than it drafted.
            found.append({"draft": draft[: int(drafted)], "accepted": int(accepted)})
            draft = []
    return found


def asked(server: RealServer, prompts: list[list[int]], *, reuse: bool) -> list[dict[str, Any]]:
    """The answer to each prompt, how many tokens of the text before were kept, and its passes."""
    lines = []
    for prompt in prompts:
        position = server.log.stat().st_size
        body = {"prompt": prompt, "n_predict": LIMIT, "temperature": 0, "return_tokens": True, "cache_prompt": reuse}
        answer = server.post("/completion", body)
        until = time.monotonic() + 10
        while True:  # the log may come later than the answer
            log = server.log.read_bytes()[position:]
            if b"stop processing" in log or time.monotonic() > until:
                break
            time.sleep(0.05)
        lines.append(
            {"prompt": prompt, "answer": answer["tokens"], "kept": answer["timings"]["cache_n"], "passes": passes(log)}
        )
    return lines


def drafts(target: Model, head: Head, lines: list[dict[str, Any]]) -> list[tuple[list[int], int]]:
    """What our head drafts in the same passes, and how many of these tokens are right.

    llama-server keeps the beginning that a text shares with the one before, and with it the head's pair at its end, whose
    token is that of the text before. So do we here, where it kept something.
    """
    assert isinstance(head, PathHead)
    found, pairs = [], None
    for line in lines:
        text, at = line["prompt"] + line["answer"], len(line["prompt"])
        session = target.open_session(1024, head.info.taps)
        if pairs is None or not line["kept"]:
            pairs = head.open(1024)
        pairs.rewind(line["kept"])
        for each in line["passes"]:
            session.prefill(text[session.length : at])
            scores = pairs.extend(text[pairs.length + 1 : at + 1], session.states(pairs.length, at))
            ours, count = list[int](), len(each["draft"])
            while len(ours) < count:
                ours.append(scores.top(1)[0][0][0])
                if len(ours) < count:
                    scores = pairs.grow(ours[-1:], [len(ours) - 2])
            pairs.drop(0)
            right = 0
            for our, own in zip(ours, text[at + 1 :], strict=False):
                # It takes no token behind the end of an answer, and does not count that end unless it is the draft's.
                if our != own or (own in target.info.eos_ids and right + 1 < count):
                    break
                right += 1
            found.append((ours, right))
            at += each["accepted"] + 1
        session.close()
    return found


@pytest.mark.parametrize("reuse", [False, True], ids=["prompts anew", "beginnings kept"])
def test_it_drafts_what_our_head_drafts(reuse: bool, tmp_path: Path) -> None:
    target = load_model("builtin", ALIKE)
    head = find_model("builtin-eagle", ALIKE).beside("builtin-eagle", target)
    prompts = [target.encode_chat([{"role": "user", "content": prompt}]) for prompt in PROMPTS]
    # From its second text on, also a prompt that it has kept for later would count.
    flags = ["--verbosity", "5", "--cache-ram", "0"]
    with real_server("llama-server draft-eagle3", tmp_path / "log", flags) as server:
        lines = asked(server, prompts, reuse=reuse)
    assert any(line["kept"] for line in lines) == reuse
    theirs = [(each["draft"], each["accepted"]) for line in lines for each in line["passes"]]
    ours = drafts(target, head, lines)
    equal = sum(one[0] == other[0] for one, other in zip(theirs, ours, strict=True))
    same = sum(one[1] == other[1] for one, other in zip(theirs, ours, strict=True))
    print(f"\n{len(theirs)} passes: {equal} with our draft, {same} with as many accepted tokens")
    if not reuse and "SPECCHAT_RECORD" in os.environ:
        Path(os.environ["SPECCHAT_RECORD"]).write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    assert len(theirs) > 250
    assert min(equal, same) >= 0.999 * len(theirs)
