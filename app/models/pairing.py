"""Pairs of target and draft model: whether one can draft for the other, judged from their files by the methods' own rules."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...backends.files.model_card import quantization_in
from ...backends.files.vocabulary import difference
from ...backends.heads.formats import Format, Target
from ...backends.llama.hidden_states import states_unavailable
from ...backends.llama.trial import trial_failed
from ...backends.loading import builtin_gguf, builtin_path
from ...backends.options import BUILTIN, BUILTIN_EAGLE
from ...errors import UserError
from ..text.cells import one_line
from .library import FoundModel, Library

MAX_SIZE_RATIO = 0.7
"""Largest ratio of a draft model's parameters to the target's: a larger one is too slow to gain anything."""


@dataclass(frozen=True, slots=True)
class Pairing:
    """Whether a model can draft for a target."""

    able: bool
    reason: str = ""
    """A sentence: the reason why not, or a doubt."""


def pair(library: Library, target: FoundModel, draft: FoundModel) -> Pairing:
    """Judge whether a model can draft for a target. Reads both vocabularies, so it blocks."""
    if (head := draft.card.head) is not None:
        if draft.spot.spec == BUILTIN_EAGLE:  # it ships as a file for each runtime; the target's is loaded
            file = builtin_gguf if target.card.backend == "llama.cpp" else builtin_path
            head = library.card(file(BUILTIN_EAGLE)).head or head
        return _fits(library, target, draft, head)
    if draft.problem:
        return Pairing(False, draft.problem)
    if target.spot.path == draft.spot.path or target.spot.spec == draft.spot.spec == BUILTIN:
        return Pairing(False, "This is the target itself.")
    ours = target.card.parameters
    theirs = draft.card.parameters
    if ours and theirs > ours * MAX_SIZE_RATIO:
        return Pairing(False, "It is not much smaller than the target, so drafting with it would only cost time.")
    try:
        left, right = library.vocabulary(target.spot.path), library.vocabulary(draft.spot.path)
    except UserError as error:
        return Pairing(True, f"Only loading them will show whether they share a vocabulary: {error}")
    first = None if left is right else difference(left, right)
    if first is None:
        return Pairing(True)
    return Pairing(False, f"Its vocabulary is different ({len(left):,} tokens against {len(right):,}), from token {first} on.")


def _fits(library: Library, target: FoundModel, draft: FoundModel, head: Format) -> Pairing:
    """Judge whether a trained drafter fits a target, by the shapes of its tensors."""
    # The built-in model is loaded on the runtime that its drafter needs.
    gguf = head.runtime == "llama.cpp"
    card = library.card(builtin_gguf() if gguf else builtin_path()) if target.spot.spec == BUILTIN else target.card
    if gguf and card.backend != "llama.cpp":
        return Pairing(False, f"It is a trained drafter ({head.title}) in GGUF, which drafts for models on llama.cpp only.")
    if card.backend == "llama.cpp":
        if trial_failed("last", card.architecture):
            return Pairing(False, states_unavailable(card.architecture))
        if head.reads_keys and not gguf:
            return Pairing(False, "It reads the target's keys and values, which llama.cpp gives to an assistant in GGUF only.")
        if not gguf and head.borrows and not card.tied:
            return Pairing(False, "It uses the target's LM head, which llama.cpp does not hand out to drafters in safetensors.")
    if head.reads_keys and not card.architecture.startswith("gemma4"):
        return Pairing(False, f"It is a {head.title}, and the target is no Gemma 4.")
    if not (card.width and card.layers and card.vocabulary):
        return Pairing(True, "Only loading it will show whether it fits.")
    shape = Target(one_line(target.spot.title), card.width, card.layers, card.vocabulary)
    try:
        head.fitting(one_line(draft.spot.title), shape)
    except UserError as error:
        return Pairing(False, str(error))
    made_for = one_line(head.trained_for)
    if made_for and made_for.rpartition("/")[2].lower() != target.spot.title.rpartition("/")[2].lower():
        return Pairing(True, f"It fits, but was made for {made_for}.")
    return Pairing(True)


def look_for(target: FoundModel) -> str:
    """Say which drafters to look for on the Hub; empty for a model that brings its own."""
    if target.spot.spec == BUILTIN or target.card.mtp is not None:
        return ""
    name = one_line(target.spot.title).rpartition("/")[2]
    if kind := quantization_in(name):
        name = re.sub(rf"[-_.]?{kind}.*$", "", name, flags=re.IGNORECASE)
    name = re.sub(r"[-_.]GGUF.*$", "", name, flags=re.IGNORECASE)
    return (
        f"On the Hub, search for “{name}” with eagle3, dflash, medusa or PARD: a trained drafter has to be made for this very "
        "model. Or take a smaller model with the same vocabulary (method draft)."
    )
