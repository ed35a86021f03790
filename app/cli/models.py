"""`specchat models`: the models on this machine and on the Hub, the draft models of a model, and downloads."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

import typer

from ...errors import Cancelled, UserError, shell_line
from ..settings.fields import Settings
from ..settings.precedence import read_settings
from ..text.amounts import size_of
from ..text.cells import fit
from .exit_codes import CANCELLED
from .options import AsJson, argument, flag, option, print_json

if TYPE_CHECKING:
    from ..models.hub import Offer, Repository
    from ..models.library import FoundModel, Library
    from ..models.memory import FreeMemory
    from ..models.rows import ModelRow

NARROWEST, WIDEST = 60, 120
"""Least and most cells of a printed row."""


def models(
    text: Annotated[
        str, argument("Words to search for, in quotes if several; owner/name asks the Hub what it offers.", "TEXT")
    ] = "",
    target: Annotated[
        str | None, option("--drafts-for", "Show which models can draft for this one, and why others cannot.", "MODEL")
    ] = None,
    fetch: Annotated[
        bool, flag("--fetch", "Download owner/name or owner/name:Q4_K_M, or continue an interrupted download.")
    ] = False,
    json: AsJson = False,
) -> None:
    """List the models on this machine, or what the Hub offers, and what fits in memory.

    Searches the built-in model, the current folder, the folders in the setting model_folders, and the caches of Hugging Face,
    LM Studio and Ollama. Exit codes: 0 found; 1 none found; 2 a mistake in the request (the message says how to fix it).
    """
    from ..models.hub import look_up
    from ..models.memory import room

    settings = read_settings()
    free = room(settings.device, settings.gpu_layers)
    on_hub = "/" in text and not text.startswith((".", "/", "~")) and text.count("/") == 1
    if fetch:
        if not on_hub:
            raise UserError("--fetch takes a name on the Hub: owner/name, or owner/name:Q4_K_M for a GGUF file.")
        _fetch(text, as_json=json)
    elif on_hub and target is None:
        repository = look_up(text)
        offers = [offer for offer in repository.offers if ":" not in text or offer.spec.lower() == text.lower()]
        _print_offers(repository, offers, settings, free, json)
    elif target is not None:
        _print_drafts(target, text, settings, json)
    else:
        _print_models(text, settings, free, json)


def _all_models(settings: Settings) -> tuple[Library, list[FoundModel]]:
    from ..models.library import Library, in_order

    library = Library()
    return library, in_order(list(library.look(settings.model_folders)))


def _print_models(text: str, settings: Settings, free: FreeMemory, as_json: bool) -> None:
    from ..models.rows import all_rows, fit_of, matches

    models = [model for model in _all_models(settings)[1] if matches(model, text)]
    if as_json:
        listed = [{**_as_json(model), "memory": asdict(fit_of(model, free, settings))} for model in models]
        print_json({"models": listed, "free": asdict(free)})
    else:
        _print_rows(all_rows(models, free, settings, {}))
    if not models:
        _nothing(as_json, "No model here has that in its name. Use owner/name to ask the Hub.")


def _print_drafts(target: str, text: str, settings: Settings, as_json: bool) -> None:
    from ..models.pairing import Pairing, look_for, pair
    from ..models.rows import draft_rows, matches

    library, models = _all_models(settings)
    named = (model for model in models if target in (model.spot.spec, model.spot.title, str(model.spot.path)))
    chosen = next(named, None)
    if chosen is None and (chosen := library.named(target, settings.model_folders)) is None:
        raise UserError(f"There is no model {target}. `specchat models` lists the models on this machine.")
    if chosen.card.head is not None:
        raise UserError(
            f"{target} is a trained drafter itself ({chosen.card.head.title}). Name the model that it was made for."
        )
    models = [model for model in models if matches(model, text)]
    pairings: dict[object, Pairing] = {model.key: pair(library, chosen, model) for model in models}
    if as_json:
        listed = [{**_as_json(model), **asdict(pairings[model.key])} for model in models]
        print_json({"target": _as_json(chosen), "models": listed, "look_for": look_for(chosen)})
        return
    mtp = chosen.card.mtp
    # The row without a draft model stays for a model with MTP layers, which drafts alone.
    rows = [row for row in draft_rows(chosen, models, pairings, {}) if not isinstance(row.key, str) or mtp is not None]
    _print_rows(rows, notes=True)
    if sentence := look_for(chosen):
        typer.echo(sentence)
    if not any(pairing.able for pairing in pairings.values()) and (mtp is None or mtp.problem):
        _nothing(as_json, "No model here can draft for it.")


def _print_offers(repository: Repository, offers: Sequence[Offer], settings: Settings, free: FreeMemory, as_json: bool) -> None:
    from ..models.memory import judge
    from ..models.rows import needs_of_offer, offer_rows

    if as_json:
        listed = [
            {**asdict(offer), "here": offer.here, "memory": asdict(judge(needs_of_offer(repository, offer), free, settings))}
            for offer in offers
        ]
        print_json({**asdict(repository), "offers": listed, "free": asdict(free)})
    else:
        _print_rows(offer_rows(replace(repository, offers=tuple(offers)), free, settings, {}))
    if not offers:
        _nothing(as_json, f"{repository.name} does not have that quantization." if repository.offers else "")


def _fetch(spec: str, as_json: bool) -> None:
    from ..models.hub import fetch, look_up
    from ..terminal.output import Notes

    repository = look_up(spec)
    offer = next((offer for offer in repository.offers if offer.spec.lower() == spec.lower()), None)
    if offer is None:
        names = ", ".join(offer.spec for offer in repository.offers)
        raise UserError(f"{spec} is not on the Hub: choose from {names}." if names else f"{spec}: {repository.remark}")
    notes = Notes()

    def progress(_: str, done: int, total: int) -> None:
        notes.progress(f"{offer.spec}: {size_of(done)} of {size_of(total)} ({done / total:.0%})")

    signal.signal(signal.SIGINT, signal.default_int_handler)  # to report the part that is kept
    try:
        folder = fetch(offer.spec, None, progress)
    except (KeyboardInterrupt, Cancelled):
        notes.sentence(f"The part of {offer.spec} downloaded so far is kept. Repeat the command to continue.")
        raise typer.Exit(CANCELLED) from None
    finally:
        notes.clear()
    if as_json:
        print_json({"model": offer.spec, "size": offer.size, "path": str(folder), "commit": repository.commit})
    else:
        typer.echo(
            f"{offer.spec} is ready ({size_of(offer.size)}). Chat with it: {shell_line('specchat', '--model', offer.spec)}"
        )


def _as_json(model: FoundModel) -> dict[str, object]:
    spot = model.spot
    card = model.card
    head = card.head.title if card.head is not None else ""
    return {
        "model": spot.spec,
        "place": spot.place,
        "path": str(spot.path),
        "runtime": card.backend,
        "revision": spot.revision,
        "architecture": card.architecture,
        "mtp": asdict(card.mtp) if card.mtp is not None else None,
        "drafter": head or ("PARD" if card.pard else ""),
        "parameters": card.parameters,
        "quantization": card.quantization,
        "size": card.size,
        "context": card.context,
        "problem": model.problem,
    }


def _print_rows(rows: Sequence[ModelRow], notes: bool = False) -> None:
    from ..models.rows import drawn

    cells = max(NARROWEST, min(shutil.get_terminal_size().columns, WIDEST))
    for i, row in enumerate(rows):
        if row.heading:
            typer.echo(("\n" if i else "") + fit(row.title, cells))
        elif notes and row.note:
            # A reason gets a line that is not cut.
            typer.echo(f"  {row.title}: {row.note}")
        else:
            typer.echo("".join(text for text, _ in drawn(row, cells)).rstrip())


def _nothing(as_json: bool, sentence: str) -> None:
    if not as_json and sentence:
        typer.echo(sentence, err=True)
    raise typer.Exit(1)
