"""`specchat doctor MODEL`: what a model can do here, what is promised of its texts, and what its passes cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from ...errors import UserError, counted
from ..settings.fields import Settings
from ..terminal.output import Notes, stdout
from ..text.amounts import count_of
from ..text.cells import one_line
from .bench.lab import Lab
from .bench.servers import is_server
from .exit_codes import ANSWERED, BROKEN, CANCELLED
from .options import print_json

ABLE = {"tree": "token trees", "chain": "chains", "layers": "early layers", "states": "hidden states"}
"""Capability → its name on the page."""


def examine(settings: Settings, *, as_json: bool) -> int:
    """Load the model of the settings, compare its passes on some text, print the results; return the exit code.

    Raises:
        UserError: it cannot be loaded, or is on a server.
    """
    if is_server(settings.model, settings):
        raise UserError("doctor cannot look into a server. Give a model on this machine.")
    from ..models.library import Library
    from ..models.pairing import look_for

    notes = Notes("auto")
    with Lab(notes) as lab:
        info = lab.load(replace(settings, draft_model=()), quiet=True).info
        found = lab.work("prove", lambda part: notes.progress(f"{counted(part['passes'], 'pass', 'passes')}"))
    if lab.code == CANCELLED:
        notes.sentence("Stopped.")
    if lab.code != ANSWERED:
        return lab.code
    keys = "name backend device dtype architecture parameters context capabilities pass_seconds timed".split()
    facts = {key: info[key] for key in keys}
    thinks = info.get("thinking")
    target = Library().named(settings.model, settings.model_folders)
    report = {"model": facts.pop("name"), **facts, **found}
    report["thinking"] = thinks["sentence"] if thinks else ""
    report["look_for"] = look_for(target) if target is not None else ""
    if as_json:
        print_json(report)
    else:
        stdout().write("\n".join(page(report)) + "\n")
    return BROKEN if found["broken"] else ANSWERED


def page(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield the report's lines."""
    able, reasons = report["capabilities"], report["capabilities"]["reasons"]
    size = f", {count_of(report['parameters'])} parameters" if report["parameters"] else ""
    yield one_line(report["model"])
    rows = {
        "runtime": f"{report['backend']}, {report['device']}, {report['dtype']}",
        "architecture": f"{one_line(report['architecture'])}{size}",
        "context": counted(report["context"], "token"),
        "thinking": one_line(report["thinking"]),
        "drafters": report["look_for"],
        **{name: "yes" if able[what] else f"no: {reasons.get(what, 'not on this runtime.')}" for what, name in ABLE.items()},
        "label": report["label"] + (f", in chains of at most {able['most']} nodes" if able["most"] else ""),
        "equal bits": _sizes(report["equal"]) if report["measured"] else "",
        "choices turned": _turned(report["turned"], report["measured"]) if report["measured"] else "",
        "cost of a pass": _costs(report["pass_seconds"], report["timed"]),
    }
    yield from (f"  {name:18} {text}" for name, text in rows.items() if text)
    yield from (f"  {'note':18} {why}" for what, why in reasons.items() if what not in ABLE)
    if report["broken"]:
        yield ""
        yield "This text shows what the load did not: passes that were taken to be equal are not. Load it with --exact off."


def _sizes(equal: Sequence[int]) -> str:
    """Say which chains have plain decoding's bits."""
    return f"chains of {', '.join(map(str, equal))} nodes" if equal else "none: larger passes round otherwise than plain ones"


def _turned(turned: int, measured: int) -> str:
    """Say how often another token came out on top in a larger pass."""
    return f"{turned:,} of {counted(measured, 'token')} that were compared in passes of several sizes"


def _costs(curve: Sequence[tuple[int, float]], timed: float) -> str:
    """Say how many plain passes larger ones take."""
    if not curve or curve[0][0] != 1:
        return ""
    costs = ", ".join(f"{nodes} nodes {seconds / curve[0][1]:.1f}" for nodes, seconds in curve[1:])
    day = f" (measured {datetime.fromtimestamp(timed):%Y-%m-%d})" if timed else ""
    return f"in plain passes: {costs}{day}"
