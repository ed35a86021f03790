"""`specchat doctor MODEL`: what a model can do here, proven at every length that its files name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
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
"""Capability → as the page names it."""

TRIED = {"plain": "plain decoding", "chain": "chains", "tree": "trees"}


def examine(settings: Settings, *, as_json: bool) -> int:
    """Load the model of the settings, prove it, print what came out; return the exit code.

    Raises:
        UserError: it cannot be loaded, or is on a server.
    """
    if is_server(settings.model, settings):
        raise UserError("doctor cannot look into a server. Give a model on this machine.")
    from ..models.library import Library
    from ..models.pairing import look_for

    notes = Notes("auto")

    def told(part: Mapping[str, Any]) -> None:
        done = f" ({part['done']:,} read)" if part["done"] else ""
        notes.progress(f"{counted(part['tokens'], 'token')}: {part['pass']}{done}")

    with Lab(notes) as lab:
        info = lab.load(replace(settings, draft_model=()), quiet=True).info
        found = lab.work("prove", told)
    if lab.code == CANCELLED:
        notes.sentence("Stopped. The lengths that were done are kept.")
    if lab.code != ANSWERED:
        return lab.code
    told_of = {key: info[key] for key in ("name", "backend", "device", "dtype", "architecture", "parameters", "context")}
    thinks = info.get("thinking")
    target = Library().named(settings.model, settings.model_folders)
    report = {"model": told_of.pop("name"), **told_of, "thinking": thinks["sentence"] if thinks else "", **found}
    report["look_for"] = look_for(target) if target is not None else ""
    if as_json:
        print_json(report)
    else:
        stdout().write("\n".join(page(report)) + "\n")
    return BROKEN if found["broken"] else ANSWERED


def page(report: Mapping[str, Any]) -> Iterator[str]:
    able, reasons, context = report["capabilities"], report["reasons"], counted(report["context"], "token")
    size = f", {count_of(report['parameters'])} parameters" if report["parameters"] else ""
    yield one_line(report["model"])
    yield f"  {'runtime':18} {report['backend']}, {report['device']}, {report['dtype']}"
    yield f"  {'architecture':18} {one_line(report['architecture'])}{size}"
    yield f"  {'label':18} {report['label']}"
    if report.get("thinking"):
        yield f"  {'thinking':18} {one_line(report['thinking'])}"
    if report.get("look_for"):
        yield f"  {'drafters':18} {report['look_for']}"
    for what, name in ABLE.items():
        yield f"  {name:18} {'yes' if able[what] else 'no: ' + reasons.get(what, 'not on this runtime.')}"
    yield from (f"  {'note':18} {why}" for what, why in reasons.items() if what not in ABLE)
    yield "Lengths"
    if not report["lengths"]:
        yield f"  Its files name none below its context of {context}."
    for row in report["lengths"]:
        yield f"  {counted(row['length'], 'token'):18} {', '.join(row['names'])}: {' '.join(_outcome(row))}"
    yield ""
    whole = ", its whole context" if report["proven"] == report["context"] else ""
    yield f"Proven to {counted(report['proven'], 'token')}{whole}."
    if report["kept"]:
        yield f"Kept in {report['kept']}: the chat reads it. Delete the file to begin again."
    elif report["lost"]:
        yield "This could not be kept, so the chat will not know."


def _outcome(row: Mapping[str, Any]) -> Iterator[str]:
    """Sentences on what was tried near a length."""
    if row["texts"]:
        held = [name for what, name in TRIED.items() if row[what]]
        failed = [f"{TRIED[what]} failed at {counted(tokens, 'token')}" for what, tokens in row["failed"].items()]
        failed += [f"{TRIED[what]} unclear at {counted(tokens, 'token')}" for what, tokens in row["unclear"].items()]
        parts = [f"{_and(held)} held"] * bool(held) + failed
        yield f"in texts of {_and([f'{tokens:,}' for tokens in row['texts']])} tokens, {'; '.join(parts) or 'nothing to try'}."
    if row["untried"]:
        yield f"{'Longer ones' if row['texts'] else 'Texts'} were not tried: {row['untried']}"


def _and(words: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
