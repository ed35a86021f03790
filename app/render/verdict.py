"""What an answer comes to in one sentence: how its speed compares with plain decoding, and how its guesses did."""

from __future__ import annotations

from ...errors import counted
from ..chat.entries import Answer, Severity
from ..chat.methods import method_named, right_or_accepted
from ..text.amounts import clock_of, speed_of, times
from ..text.cells import one_line
from ..text.lines import StyledLine, flowed, length

ENDS: dict[Severity, str] = {"information": "quiet", "warning": "warning", "error": "error"}
"""How bad an answer's end is → the style in which it is told."""

SIGN = " · "
"""Before each part that follows the sentence."""


def verdict(answer: Answer, *, speeds: bool = True) -> StyledLine:
    """The sentence about a finished answer, as "2.9× faster than plain: 83 of 120 guesses were right.", with the names of its
    styles: quiet, success, warning, error.

    Args:
        speeds: whether to tell how fast it came; not where that is told beside it.
    """
    figures, ending = answer.figures, f"{answer.ending.capitalize()}{' in the middle of the thought' * answer.thinking}."
    if not figures.tokens:
        return ((ending, ENDS[answer.severity]),)
    ended: StyledLine = () if answer.reason == "eos" and not answer.thinking else ((f"{ending} ", ENDS[answer.severity]),)
    match answer.valid:
        case True:
            ended = (*ended, ("✓ ", "success"))
        case False:
            ended = (*ended, ("✗ It does not match the schema. ", "warning"))
    ratio = figures.speedup if speeds else 0.0
    lead, style = against(ratio) if ratio else (_unmeasured(answer) if speeds else "", "quiet")
    fact = _fact(answer)
    if style == "quiet" and not figures.drafted and ratio:  # what is worth saying is why it was no faster
        lead, fact = fact, lead
    if figures.grammar:
        fact += f"; the grammar wrote {figures.grammar:,} of {counted(figures.tokens, 'token')}"
    first, rest = (lead, f": {fact}.") if lead else (fact, ".")
    doubt: StyledLine = ((f" {one_line(figures.doubt)}", "warning"),) if figures.doubt else ()
    return (*ended, (first[:1].upper() + first[1:], style), (rest, "quiet"), *doubt)


def signed(answer: Answer, model: str = "", *, speeds: bool = True) -> StyledLine:
    """The verdict with the methods that wrote the answer, the model's name where it is given, and how the answer came: its
    speed (unless that is told beside it), the time to its first token, and that it came to its end."""
    return (*verdict(answer, speeds=speeds), *_signature(answer, model, speeds=speeds))


def verdict_lines(answer: Answer, cells: int) -> list[StyledLine]:
    """The signed sentence on as many rows as it takes; what follows it goes to a row of its own rather than to be torn. Last
    comes what made the answer slower than plain decoding, if it was."""
    rows, signature = flowed(verdict(answer), cells), _signature(answer, "", speeds=True)
    if length(rows[-1]) + length(signature) <= cells:
        rows[-1] += signature
    else:
        rows += flowed(tuple((text.removeprefix(SIGN), style) for text, style in signature), cells)
    if answer.held_back:
        rows += flowed(((f"{one_line(answer.held_back)} /why says what would help.", "quiet"),), cells)
    return rows


def verdict_text(answer: Answer, model: str = "") -> str:
    """The signed sentence as text."""
    return "".join(text for text, _ in signed(answer, model))


def against(ratio: float, other: str = "plain") -> tuple[str, str]:
    """How many times as fast as another speed one is, in words, and their style. One decimal: it repeats no better."""
    near = round(ratio, 1) or round(ratio, 2)
    if not near:
        return f"slower than {other} ({times(ratio)})", "warning"
    if near > 1:
        return f"{near:.1f}× faster than {other}", "success"
    return (f"as fast as {other}", "quiet") if near == 1 else (f"slower than {other} ({near:g}×)", "warning")


def _signature(answer: Answer, model: str, *, speeds: bool) -> StyledLine:
    figures = answer.figures
    parts = [" on ".join(filter(None, (one_line(" → ".join(answer.methods)).strip(), one_line(model))))]
    if speeds and figures.tokens:
        parts.append(speed_of(figures.tokens_per_second) if figures.tokens_per_second else "")
        parts.append(f"first token after {clock_of(figures.first_seconds)}" if figures.first_seconds else "")
        parts.append("finished" if answer.reason == "eos" else "")  # any other reason leads the sentence
    parts.append(f"passes {one_line(figures.certainty)}" if figures.certainty else "")
    told = SIGN.join(filter(None, parts))
    return ((f"{SIGN}{told}", "quiet"),) if told else ()


def _unmeasured(answer: Answer) -> str:
    """What leads the sentence where the speed was not compared."""
    if answer.figures.certainty:
        several = answer.figures.tokens_per_step > 1
        return f"{answer.figures.tokens_per_step:.1f} tokens a pass" if several else ""
    if answer.figures.drafted:
        return f"{answer.figures.tokens_per_step:.1f} tokens a pass"
    return "plain decoding" if all(method_named(name).plain for name in answer.methods) else ""


def _fact(answer: Answer) -> str:
    drafted, accepted = answer.figures.drafted, answer.figures.accepted
    if drafted:
        right = right_or_accepted(answer.label)
        return f"{accepted:,} of {counted(drafted, 'guess', 'guesses')} {'was' if accepted == 1 else 'were'} {right}"
    if certainty := answer.figures.certainty:
        return "the server guessed nothing" if certainty == "exact" else "the server does not tell what it guessed"
    if why := answer.figures.why_declined:
        return why
    methods = [method_named(name) for name in answer.methods]
    if all(method.undrafted for method in methods):
        return " or ".join(dict.fromkeys(method.undrafted for method in methods))
    return "nothing to guess from here" if any(method.group == "text" for method in methods) else "no guess would pay here"
