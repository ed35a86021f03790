"""Inspection of one run: its step, its costs, and the fate of its draft."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ...errors import counted
from ..chat.entries import Answer
from ..chat.methods import get_method
from ..chat.pieces import Pieces
from ..text.amounts import milliseconds
from ..text.cells import fit, one_line, sanitise, width
from ..text.charts import percent
from ..text.lines import StyledLine, length
from .tree_rows import StepTree, visible

METHOD, LABEL, VALUE, CONTEXT = "bold $primary", "$quiet", "bold $foreground", "$foreground"
REFUSED, NOTE = "bold $error", "italic $accent"
RUN = "run"
"""Placeholder for the style of the run itself: of accepted tokens, and of the bonus token."""

PHRASE = 28
"""Longest text in quotes, in cells."""

SHORT_PHRASE = 14
"""Longest text in quotes of a brief sentence."""

TOKENS_BEFORE = 12
"""Tokens before a run that are searched for the last word."""

BRANCHES = 3
"""Most refused branches quoted at one place."""


class RefusedBranch(NamedTuple):
    """A branch of the draft that was not accepted."""

    text: str
    prob: float | None
    """The model's probability of its first token; None if it was not recorded."""


@dataclass(frozen=True, slots=True)
class DraftFork:
    """A place where the draft and the model differed, or where one of several guesses was accepted."""

    after: str
    """The end of the text before; empty at the beginning of an answer."""
    refused: tuple[RefusedBranch, ...]
    chosen: str
    prob: float | None
    """The model's probability of its choice."""
    last: bool
    """Whether the run ended here, with the bonus token as the choice."""


@dataclass(frozen=True, slots=True)
class Inspection:
    """The description of a run: its step, its draft, and the reason for its end."""

    method: str
    step: int
    """Number of the pass, from 1; 0 if unknown."""
    steps: int
    """Number of passes of the answer; 0 while it is being written, and if unknown."""
    drafted: int
    accepted: int
    count: int
    """Number of the run's tokens."""
    earlier: int = 0
    """Number of its tokens that earlier passes had found."""
    guessed: int = 0
    """Number of its tokens that no draft had, but other nodes of the pass (lookahead's window)."""
    nodes: int = 0
    """Number of nodes that the pass evaluated; 0 without a pass, and if unknown."""
    seconds: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Seconds of the draft, the model's pass, and the rest."""
    tokens: tuple[str, ...] = ()
    """Texts of the tokens, with visible spaces."""
    bonus: int = 0
    """Number of bonus tokens: 1, or 0 if the answer was cut."""
    prob: float | None = None
    """The model's probability of the bonus token."""
    forks: tuple[DraftFork, ...] = ()
    """The forks, the last one first, which explains the run's end."""
    traced: bool = True
    """Whether the draft is known."""
    note: str = ""
    """The drafter's note."""
    certainty: str = ""
    """Whether the runs of a server's answer are known; empty for a local model's."""


def inspect(answer: Answer, index: int, pieces: Pieces) -> Inspection:
    """Inspect run number `index` of an answer; `pieces` are the token texts of its model."""
    run = answer.runs[index]
    text = visible_line(answer.own_text(index))
    run_text = (text,) if text else ()
    if index >= len(answer.log):  # an answer without steps
        return Inspection(
            one_line(run.method),
            step=0,
            steps=0,
            drafted=run.drafted,
            accepted=run.accepted,
            count=run.tokens,
            seconds=(0.0, 0.0, run.seconds),
            tokens=run_text,
            traced=not run.drafted,
        )
    record = answer.log.record(index)
    before = _before(answer, index)
    tree = StepTree.of(record, before[-1] if before else -1)
    bonus = int(tree.choice is not None)
    step, steps = answer.pass_of(index)
    return Inspection(
        one_line(record.method),
        step=step,
        steps=steps,
        drafted=record.drafted,
        accepted=record.accepted,
        count=len(record.tokens),
        earlier=record.earlier,
        guessed=max(0, len(record.tokens) - record.accepted - bonus) if get_method(record.method).other_nodes else 0,
        nodes=record.nodes if record.drafted or not answer.figures.certainty else 0,  # a server's are unknown
        seconds=(record.draft_seconds, record.forward_seconds, record.other_seconds),
        tokens=tuple(visible(pieces.text(token)) for token in record.tokens) if len(pieces) else run_text,
        bonus=bonus,
        prob=tree.probs[-1] if tree.probs and bonus else None,
        forks=_forks(tree, before, pieces.text) if record.drafted and record.tree_tokens else (),
        traced=not record.drafted or bool(record.tree_tokens),
        note=one_line(record.note),
        certainty=answer.figures.certainty,
    )


def visible_line(text: str) -> str:
    """Return a run's text on one line, with signs for blanks and control characters."""
    return sanitise(text).replace("\n", "⏎").replace("\t", "⇥").replace(" ", "␣")


def _before(answer: Answer, index: int) -> list[int]:
    """Return the tokens before a run, as many as it takes to quote the text there."""
    out: list[int] = []
    for step in range(index - 1, -1, -1):
        out = [*answer.log.record(step).tokens, *out]
        if len(out) >= TOKENS_BEFORE:
            break
    return out[-TOKENS_BEFORE:]


def _forks(tree: StepTree, before: Sequence[int], piece: Callable[[int], str]) -> tuple[DraftFork, ...]:
    """List the nodes of the path at which something was refused, the last one first."""
    children: list[list[int]] = [[] for _ in tree.tokens]
    for node in range(1, min(tree.guesses, len(tree.tokens))):
        children[tree.parents[node]].append(node)

    def likelihood(node: int) -> float:
        return tree.prob(node) or 0.0

    out = []
    for place, node in enumerate(tree.path):
        following = tree.path[place + 1] if place + 1 < len(tree.path) else None
        refused = sorted((child for child in children[node] if child != following), key=likelihood, reverse=True)
        if not refused:
            continue
        if following is not None:
            token = tree.tokens[following]
            prob = tree.prob(following)
        elif tree.choice is not None:
            token = tree.choice
            prob = tree.probs[-1] if tree.probs else None
        else:
            continue
        context = [*before[:-1], *(tree.tokens[passed] for passed in tree.path[: place + 1])]
        branches = tuple(RefusedBranch(_branch(tree, children, child, piece), tree.prob(child)) for child in refused)
        after = _last_word(context, piece) if before or place else ""
        out.append(DraftFork(after, branches, piece(token), prob, last=following is None))
    return tuple(reversed(out))


def _branch(tree: StepTree, children: Sequence[Sequence[int]], node: int, piece: Callable[[int], str]) -> str:
    """Return the text of a branch, along its first or likeliest nodes."""
    text = piece(tree.tokens[node])
    while children[node] and width(text) <= PHRASE:
        node = max(children[node], key=lambda child: tree.prob(child) or 0.0)
        text += piece(tree.tokens[node])
    return text


def _last_word(tokens: Sequence[int], piece: Callable[[int], str]) -> str:
    """Return the last word of a text, which may have several tokens."""
    text = ""
    for token in reversed(tokens):
        text = piece(token) + text
        if text[:1] in " ⏎⇥" and text.strip(" ⏎⇥"):
            break
        if width(text) > PHRASE:
            break
    return text


# Words


def figures(run: Inspection, *, brief: bool = False) -> StyledLine:
    """Format the number of the step and its counts."""
    out = [(run.method, METHOD)]
    if not run.step:
        return (*out, ("  all of the answer", LABEL))
    out += [("  pass ", LABEL), (f"{run.step:,}", VALUE)]
    if run.steps and not brief:
        out.append((f" of {run.steps:,}", LABEL))
    counts = [(run.drafted, "drafted"), (run.accepted, "accepted")] if run.drafted else []
    if run.drafted and run.guessed:
        counts.append((run.guessed, "from the window"))
    for value, name in counts:
        out += [(f" · {name} ", LABEL), (f"{value:,}", VALUE)]
    out += [(" · ", LABEL), (f"{run.count:,}", VALUE), (" token" if run.count == 1 else " tokens", LABEL)]
    return tuple(out)


def costs(run: Inspection, *, brief: bool = False) -> StyledLine:
    """Format the milliseconds and the nodes of the step."""
    total = sum(run.seconds)
    out = [(milliseconds(total), VALUE), (" ms", LABEL)] if total else []
    if run.nodes and not brief and total:
        out.append((f" = {shares(run)}", LABEL))
    if run.nodes:
        out += [(" · " if out else "", LABEL), (f"{run.nodes:,}", VALUE)]
        out.append((" node" if run.nodes == 1 else " nodes", LABEL))
    return tuple(part for part in out if part[0])


def shares(run: Inspection) -> str:
    """Format the milliseconds of each part of the step."""
    parts = zip(("draft", "pass", "rest"), run.seconds, strict=True)
    return " + ".join(f"{name} {milliseconds(seconds)}" for name, seconds in parts)


def tokens(run: Inspection, cells: int) -> StyledLine:
    """List the run's tokens, the accepted ones first, the bonus token after them."""
    if not run.tokens:
        return ()
    checked = run.traced and (run.drafted or run.guessed)
    accepted = run.tokens[: len(run.tokens) - run.bonus] if checked else ()
    remaining = run.tokens[len(accepted) :]
    name = "guessed " if run.guessed else "accepted "
    if not accepted:
        name = "tokens " if run.count > 1 else "token "
        return _list(remaining, "model’s own " if checked and run.bonus else name, cells)
    if not remaining:
        return _list(accepted, name, cells)
    out: StyledLine = ()
    for last in ("  model’s own ", "  own "):
        tail = _list(remaining, last, max(12, cells // 2))
        out = (*_list(accepted, name, cells - length(tail)), *tail)
        if len(out) == 2 * len(accepted) + 2:  # all tokens fit
            break
    return out


def _list(texts: Sequence[str], name: str, cells: int) -> StyledLine:
    """List a name and as many tokens as fit, and the number of the others."""
    out = [(name, LABEL)] if name else []
    used = width(name)
    for i, text in enumerate(texts):
        rest = len(texts) - i - 1
        more = f" … {rest} more" if rest else ""
        gap = 1 if i else 0
        if i and used + gap + width(text) + width(more) > cells:
            more = f" … {rest + 1} more"
            out.append((more if used + width(more) <= cells else f" +{rest + 1}", LABEL))
            break
        if i:
            out.append((" ", LABEL))
        out.append((fit(text, max(2, cells - used - gap)), RUN))
        used += gap + width(text)
    return tuple(out)


def verdict(run: Inspection, *, brief: bool = False) -> list[StyledLine]:
    """Explain the fate of the draft in sentences, the most important first; brief ones have fewer words."""
    if not run.step:
        return [(("How this answer was decoded is not known: it came without its passes.", LABEL),)]
    if run.earlier or not run.count:
        return [((beam_sentence(run, brief=brief), LABEL),)]
    if not run.drafted:
        return [_plain(run, brief=brief)]
    if not run.traced:
        refused = run.drafted - run.accepted
        if not refused:
            return [(("Every draft token was accepted.", LABEL),)]
        rejected = f"{refused:,} of {counted(run.drafted, 'draft token')} {'were' if refused > 1 else 'was'} rejected"
        return [((f"{rejected}." if brief else f"{rejected}. Which ones was not recorded.", LABEL),)]
    out = [_fork(fork, brief=brief) for fork in run.forks]
    if not (run.forks and run.forks[0].last):
        out.insert(0, _end(run, brief=brief))
    return out


def _plain(run: Inspection, *, brief: bool) -> StyledLine:
    if run.guessed:
        return ((_window(run, brief=brief), LABEL),)
    if run.certainty == "unknown":
        return (("The server does not show its passes, nor what it drafted.", LABEL),)
    amount = "one token" if run.count == 1 else f"{run.count:,} tokens"
    if run.certainty and run.count > 1:
        return ((f"One pass gave {amount}. The server does not tell what it drafted.", LABEL),)
    prob = run.prob if run.count == 1 else None
    if brief:
        return ((f"No draft: one pass, {amount}{_chance(prob)}.", LABEL),)
    other_nodes = one_line(get_method(run.method).other_nodes) if run.nodes > 1 else ""
    return ((f"Nothing was drafted: one pass gave {amount}{_chance(prob, ' likely')}. {other_nodes}".rstrip(), LABEL),)


def beam_sentence(run: Inspection, *, brief: bool = False) -> str:
    """Explain a step of beam search: a pass extends each of several texts by one token, and the step's tokens are those that
    became certain by it."""
    over = f"this pass over {run.nodes:,} nodes" if run.nodes > 1 else "this pass"
    if not run.count:
        return "No token became certain." if brief else f"No token became certain in {over}: the beams still differ."
    these, pronoun = ("This token", "It") if run.count == 1 else (f"These {run.count:,} tokens", "Each")
    if brief:
        return f"{these} became certain; {pronoun.lower()} took its own pass."
    if not run.nodes:
        return f"{these} ended the best text when the search stopped. {pronoun} had taken a pass of its own."
    return f"{these} became certain in {over}. {pronoun} had taken a pass of its own."


def _window(run: Inspection, *, brief: bool) -> str:
    if brief:
        return f"{run.guessed:,} of {run.count:,} from the window."
    were = "token was" if run.guessed == 1 else "tokens were"
    return f"{run.guessed:,} {were} guessed by the window, and the model chose the same."


def _end(run: Inspection, *, brief: bool) -> StyledLine:
    """Explain the end of a run at which nothing was refused."""
    if run.guessed:
        return ((_window(run, brief=brief), LABEL),)
    if not run.bonus:
        rest = ", so the rest of the draft was not needed" if run.count < run.drafted else ""
        return ((f"The answer ended here{rest}.", LABEL),)
    bonus = quoted(run.tokens[-1].replace("␣", " "), SHORT_PHRASE if brief else PHRASE) if run.tokens else ""
    if run.accepted < run.drafted:
        words = "The draft went no further; the model added "
    else:
        which = {1: "the one draft token", 2: "both draft tokens"}.get(run.drafted, f"all {run.drafted:,} draft tokens")
        words = f"Accepted {which}, then " if brief else f"Accepted {which}, and the same pass gave one more: "
    return (words, LABEL), (bonus, RUN), (f"{_chance(run.prob)}.", LABEL)


def _fork(fork: DraftFork, *, brief: bool) -> StyledLine:
    cells = SHORT_PHRASE if brief else PHRASE
    texts = [branch.text for branch in fork.refused]
    marked = len({text.strip(" ") for text in (*texts, fork.chosen)}) <= len(texts)  # some differ in blanks alone
    place = (("After ", LABEL), (quoted(fork.after, min(cells, 18), end=True), CONTEXT)) if fork.after else ()
    out: list[tuple[str, str]] = list(place) or [("At the start", LABEL)]
    if brief:
        out.append((": draft ", LABEL))
    else:
        out.append((" the draft said " if fork.last else " the draft also said ", LABEL))
    most = 1 if brief else BRANCHES
    for i, branch in enumerate(fork.refused[:most]):
        if i:
            final = i == len(fork.refused) - 1
            out.append((" or " if final else ", ", LABEL))
        chance = _chance(branch.prob, " likely" if not brief and not i else "")
        out += [(quoted(branch.text, cells, marked=marked), REFUSED), (chance, LABEL)]
    if (rest := len(fork.refused) - most) > 0:
        out.append((f" +{rest}" if brief else f" or {rest} more", LABEL))
    if brief:
        out.append((", model ", LABEL))
    else:
        out.append((", the model chose " if fork.last else ", the model went with ", LABEL))
    return (*out, (quoted(fork.chosen, cells, marked=marked), RUN), (_chance(fork.prob), LABEL))


def _chance(prob: float | None, unit: str = "") -> str:
    return "" if prob is None else f" ({percent(prob)}{unit})"


def quoted(text: str, cells: int = PHRASE, *, marked: bool = False, end: bool = False) -> str:
    """Put text in quotation marks, without the blanks around it unless it is blank.

    Args:
        text: sanitised text on one line.
        cells: most cells inside the marks.
        marked: show its blanks.
        end: keep the end of a text that is too long.
    """
    text = text.replace(" ", "␣") if marked or not text.strip(" ") else text.strip(" ")
    if end and width(text) > cells:
        while width(text) > cells - 1:
            text = text[1:]
        text = "…" + text
    return f"‘{fit(text, cells)}’"
