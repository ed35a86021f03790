"""Pairs of target and draft model: whether one can draft for the other, judged from their files by the
methods' own rules; and the kinds of drafter to look for on the Hub."""

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
from ..text.cells import fit, one_line
from .library import FoundModel, Library

MAX_SIZE_RATIO = 0.7
"""Largest ratio of a draft model's parameters to the target's: a larger one is too slow to gain anything."""

KINDS = {
    "eagle3": ("EAGLE-3", "eagle"),
    "medusa": ("Medusa", "medusa"),
    "dflash": ("DFlash", "dflash"),
    "dflash2": ("DFlash 2", "dflash"),
    "dspark": ("DSpark", "dflash"),
    "assistant": ("Gemma 4 assistant", "eagle"),
    "PARD": ("PARD", "pard"),
    "mtp": ("MTP layers in the model's own checkpoint", "mtp"),
}
"""Word for a kind of drafter in names on the Hub → its name here, and its method."""

FAMILIES = {
    "llama": ("eagle3", "medusa", "PARD"),
    "qwen2": ("PARD",),
    "qwen3": ("eagle3", "dflash", "dspark", "PARD"),
    "qwen3moe": ("eagle3", "dflash"),
    "qwen3next": ("mtp",),
    "qwen35": ("mtp", "dflash", "dflash2", "dspark"),
    "qwen35moe": ("mtp", "eagle3"),
    "gemma3": ("eagle3",),
    "gemma4": ("assistant", "eagle3"),
    "gptoss": ("eagle3",),
    "glm4moe": ("mtp",),
    "deepseek2": ("mtp",),
    "deepseekv3": ("mtp",),
    "mimo": ("mtp",),
}
"""Architecture, in either runtime's spelling without punctuation → published kinds of drafter for it that work here."""


@dataclass(frozen=True, slots=True)
class DrafterKind:
    """A kind of drafter that exists for a family of models."""

    title: str
    method: str
    search: str
    """Words to search the Hub for."""


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
    if same(target, draft):
        return Pairing(False, "This is the target itself.")
    ours = target.card.parameters
    theirs = draft.card.parameters
    if ours and theirs > ours * MAX_SIZE_RATIO:
        size = {1: "larger than", 0: "as large as", -1: "hardly smaller than"}[(theirs > ours) - (theirs < ours)]
        return Pairing(False, f"It is {size} the target, so drafting with it would only cost time.")
    try:
        left, right = library.vocabulary(target.spot.path), library.vocabulary(draft.spot.path)
    except UserError as error:
        return Pairing(True, f"Only loading them will show whether they share a vocabulary: {error}")
    i = None if left is right else difference(left, right)
    if i is None:
        return Pairing(True)
    sizes = f" ({len(left):,} tokens against {len(right):,})" if len(left) != len(right) else ""
    ours_is, theirs_is = _shown(left.raw(i)), _shown(right.raw(i))
    return Pairing(False, f"Its vocabulary is different{sizes}: token {i} is {ours_is} for the target, {theirs_is} for it.")


def _fits(library: Library, target: FoundModel, draft: FoundModel, head: Format) -> Pairing:
    """Judge whether a trained drafter fits a target, by the shapes of its tensors."""
    # The built-in model is loaded on the runtime that its drafter needs.
    gguf = head.runtime == "llama.cpp"
    card = library.card(builtin_gguf() if gguf else builtin_path()) if target.spot.spec == BUILTIN else target.card
    name = one_line(draft.spot.title)
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
    try:
        head.fitting(name, Target(one_line(target.spot.title), card.width, card.layers, card.vocabulary))
    except UserError as error:
        return Pairing(False, str(error))
    made_for = one_line(head.trained_for)
    if made_for and made_for.rpartition("/")[2].lower() != target.spot.title.rpartition("/")[2].lower():
        return Pairing(True, f"It fits, but was made for {made_for}.")
    return Pairing(True)


def drafter_kinds(target: FoundModel) -> list[DrafterKind]:
    """List the kinds of trained drafter to look for on the Hub; MTP layers only if
    the target's own files have none."""
    if target.spot.spec == BUILTIN:
        return []
    family = re.sub("[^a-z0-9]|text$|forcausallm$", "", target.card.architecture.lower())
    words = FAMILIES.get(family, ())
    name = _plain_name(target)
    return [DrafterKind(*KINDS[word], f"{name} {word}") for word in words if word != "mtp" or target.card.mtp is None]


def look_for(target: FoundModel) -> str:
    """Say which drafters to look for; empty if there is nothing to look for."""
    card = target.card
    kinds = drafter_kinds(target)
    if target.spot.spec == BUILTIN or (not kinds and card.mtp is not None):
        return ""
    if not kinds:
        return (
            f"No trained drafters are known for {one_line(card.architecture) or 'this kind of model'}: look for a smaller "
            "model with the same vocabulary (method draft), or train a head (docs/models.md)."
        )
    searches = ", ".join(f"“{kind.search}” ({kind.title}, method {kind.method})" for kind in kinds)
    sizes = [f"{card.width:,} wide"] * bool(card.width) + [f"{card.layers:,} layers"] * bool(card.layers)
    sizes += [f"{card.vocabulary:,} tokens"] * bool(card.vocabulary)
    shape = f" ({', '.join(sizes)})" if sizes else ""
    return f"On the Hub, search for {searches}. A drafter has to be made for this very model{shape}."


def _plain_name(target: FoundModel) -> str:
    """Return a model's name without owner and quantization; its drafters' names begin with that."""
    name = one_line(target.spot.title).rpartition("/")[2]
    name = re.sub(r"\.gguf$", "", name, flags=re.IGNORECASE)
    if kind := quantization_in(name):
        name = re.sub(rf"[-_.]?{kind}.*$", "", name, flags=re.IGNORECASE)
    return re.sub(r"[-_.]GGUF.*$", "", name, flags=re.IGNORECASE)


def same(one: FoundModel, other: FoundModel) -> bool:
    """Whether two entries are the same model; the built-in model's files for the two runtimes are."""
    if one.spot.path == other.spot.path:
        return True
    return one.spot.spec == other.spot.spec == BUILTIN


def _shown(text: str) -> str:
    return f"“{fit(one_line(text), 16) if text.strip() else text.replace(chr(10), '⏎')}”"
