"""What a search for the fastest method found, printed or as JSON, and saved."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ....engine.catalog import elsewhere
from ....errors import counted
from ...settings import file as settings_file
from ...settings import locations
from ...settings.precedence import method_changes
from ...text.amounts import time_of
from .lab import say, show_table
from .requests import TuneRequest
from .servers import show_predicted
from .tune_blocks import show_blocks
from .tune_search import TuneSearch


def report(
    request: TuneRequest,
    search: TuneSearch,
    info: Mapping[str, Any],
    found: dict[str, Any] | None,
    servers: Sequence[Mapping[str, Any]],
    *,
    keep: bool,
) -> None:
    """Save the pick unless it is unclear, and print it all; None where too little was measured for one."""
    others: dict[str, tuple[str, str]] = {}
    saved = ""
    if found:
        others = elsewhere(found["method"], found["settings"], next(iter(request.settings.draft_model), "DRAFT"))
        if keep and not found["unclear"]:
            settings_file.save(method_changes(request.settings.model, found["method"], found["settings"]))
            saved = str(locations.settings_file())
    if request.as_json:
        data = {
            "model": info["name"],
            "backend": info["backend"],
            "device": info["device"],
            "prompts": len(search.items),
            "best": found,
            "rungs": search.rungs,
            "passes": search.passes,
            "blocks": search.blocks.as_dict(),
            "out_of_time": search.out_of_time,
            "equivalents": [{"engine": engine, "setting": here, "note": note} for engine, (here, note) in others.items()],
            "servers": list(servers),
            "saved": saved,
        }
        print(json.dumps(data, ensure_ascii=False))
        return
    if search.blocks.found:
        show_blocks(search.blocks)
    for number, rung in enumerate(search.rungs, 1):
        if not any(line["speedup"] for line in rung["candidates"]):
            continue
        say(f"Round {number}: {counted(len(rung['candidates']), 'candidate')} on {counted(rung['prompts'], 'prompt')}")
        default = search.default if number < len(search.rungs) else ""
        rows = [
            [line["method"], f"{line['speedup']:.2f}×", "kept" if place < rung["kept"] or line["method"] == default else ""]
            if line["speedup"]
            else [line["method"], "–", "not measured"]
            for place, line in enumerate(rung["candidates"])
        ]
        show_table(["method", "speedup", ""], rows)
    if search.out_of_time:
        say(f"The {time_of(60 * request.minutes)} ran out before the search was finished. Allow more with --minutes.")
    if found is None:
        return
    say("")
    say(
        f"Best for {info['name']} on {info['device']}: {found['spec']}, {found['speedup']:.2f}× plain decoding (median "
        f"{found['median_speedup']:.2f}×, 95% {found['speedup_low']:.2f}–{found['speedup_high']:.2f}, "
        f"{counted(found['prompts'], 'prompt')}, {counted(search.passes, 'forward pass', 'forward passes')})."
    )
    if saved:
        say(f"Saved as this model's method in {saved}.")
    if found["unclear"]:
        say(found["unclear"])
    say("")
    say("In other engines:")
    for engine, (setting, note) in others.items():
        say(f"  {engine}: {setting or note}")
        if setting and note:
            say(f"    {note}")
    if servers:
        say("")
        show_predicted(servers, measured=True)
