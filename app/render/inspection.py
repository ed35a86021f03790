"""What there is to say about one run: which step made it, what that cost, and what became of its draft."""

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
LIT = "lit"
"""Stands for the style of the run itself: of accepted tokens, and of the model's own."""

PHRASE = 28
"""Longest text in quotes, in cells."""

SHORT_PHRASE = 14
"""The same where there is little room."""

TOKENS_BEFORE = 12
"""Tokens before a run that are looked at for the last word there."""

BRANCHES = 3
"""Most refused branches quoted at one place."""


class RefusedBranch(NamedTuple):
    """A branch of the draft that was not taken."""

    text: str
    prob: float | None
    """The model's probability of its first token; None where it was not recorded."""


@dataclass(frozen=True, slots=True)
class DraftFork:
    """A place where the draft and the model parted, or where one of several guesses was taken."""

    after: str
    """The end of the text before; empty at the beginning of an answer."""
    refused: tuple[RefusedBranch, ...]
    taken: str
    prob: float | None
    """The model's probability of what was taken."""
    last: bool
    """Whether the run ended here: what was taken is the model's own token."""


@dataclass(frozen=True, slots=True)
class Inspection:
    """Everything that is told of a run: its step, its draft, why it ended."""

    method: str
    step: int
    """The number of the pass, from 1; 0 if none is known."""
    steps: int
    """Count the passes of the answer; 0 while it is being written, and where none is known."""
    drafted: int
    accepted: int
    count: int
    """Tokens of the run."""
    earlier: int = 0
    """Tokens of the run that earlier passes had found."""
    guessed: int = 0
    """Tokens that no draft had, but other nodes of the pass (lookahead's window)."""
    nodes: int = 0
    """How many nodes the pass evaluated; 0 where there was none, or it was not recorded."""
    seconds: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Seconds of the draft, the model's pass, and the rest."""
    tokens: tuple[str, ...] = ()
    """Texts of the tokens, with visible spaces."""
    own: int = 0
    """Tokens at the end that the model added itself, rather than accept them: 1, or 0 where the answer was cut."""
    prob: float | None = None
    """The model's probability of its own token."""
    forks: tuple[DraftFork, ...] = ()
    """The last one first: it says why the run ended."""
    traced: bool = True
    """Whether it is known what was drafted."""
    note: str = ""
    """What the drafter says."""
    certainty: str = ""
    """Whether the runs of a server's answer are known; empty for an answer of ours."""


def inspect(answer: Answer, index: int, pieces: Pieces) -> Inspection:
    """Look into run number `index` of an answer.

    Args:
        pieces: token texts of the model that wrote it.
    """
    run = answer.runs[index]
    text = visible_line(answer.own_text(index))
    if index >= len(answer.log):  # an answer from elsewhere, without steps
        return Inspection(
            *(one_line(run.method), 0, 0, run.drafted, run.accepted, run.tokens),
            seconds=(0.0, 0.0, run.seconds),
            tokens=(text,) if text else (),
            traced=not run.drafted,
        )
    record = answer.log.record(index)
    before = _before(answer, index)
    tree = StepTree.of(record, before[-1] if before else -1)
    known = len(pieces) > 0
    tokens = tuple(visible(pieces.text(token)) for token in record.tokens) if known else ((text,) if text else ())
    traced = not record.drafted or bool(record.tree_tokens)
    own = int(tree.choice is not None)
    return Inspection(
        *(one_line(record.method), *answer.pass_of(index), record.drafted, record.accepted, len(record.tokens)),
        earlier=record.earlier,
        guessed=max(0, len(record.tokens) - record.accepted - own) if get_method(record.method).other_nodes else 0,
        nodes=record.nodes if record.drafted or not answer.figures.certainty else 0,  # a server's are not known
        seconds=(record.draft_seconds, record.forward_seconds, record.other_seconds),
        tokens=tokens,
        own=own,
        prob=tree.probs[-1] if tree.probs and tree.choice is not None else None,
        forks=_forks(tree, before, pieces.text) if record.drafted and record.tree_tokens else (),
        traced=traced,
        note=one_line(record.note),
        certainty=answer.figures.certainty,
    )


def visible_line(text: str) -> str:
    """Text of a run on one line, with what is not to be seen in it made visible."""
    return sanitise(text).replace("\n", "⏎").replace("\t", "⇥").replace(" ", "␣")


def _before(answer: Answer, index: int) -> list[int]:
    """Tokens before a run, as many as it takes to quote the text there."""
    out: list[int] = []
    for step in range(index - 1, -1, -1):
        out = [*answer.log.record(step).tokens, *out]
        if len(out) >= TOKENS_BEFORE:
            break
    return out[-TOKENS_BEFORE:]


def _forks(tree: StepTree, before: Sequence[int], piece: Callable[[int], str]) -> tuple[DraftFork, ...]:
    """Every node of the path at which something was refused, the last one first."""
    children: list[list[int]] = [[] for _ in tree.tokens]
    for node in range(1, min(tree.guesses, len(tree.tokens))):
        children[tree.parents[node]].append(node)
    likely: Callable[[int], float] = lambda node: -(tree.prob(node) or 0.0)  # noqa: E731
    out = []
    for place, node in enumerate(tree.path):
        following = tree.path[place + 1] if place + 1 < len(tree.path) else None
        refused = sorted((child for child in children[node] if child != following), key=likely)
        last = following is None
        if not refused or (last and tree.choice is None):
            continue
        token = tree.choice if following is None else tree.tokens[following]
        assert token is not None
        prob = (tree.probs[-1] if tree.probs else None) if following is None else tree.prob(following)
        context = [*before[:-1], *(tree.tokens[passed] for passed in tree.path[: place + 1])]
        branches = tuple(RefusedBranch(_branch(tree, children, child, piece), tree.prob(child)) for child in refused)
        out.append(DraftFork(_word(context, piece) if before or place else "", branches, piece(token), prob, last))
    return tuple(reversed(out))


def _branch(tree: StepTree, children: Sequence[Sequence[int]], node: int, piece: Callable[[int], str]) -> str:
    """The text of a branch, along its first or likeliest nodes."""
    text = piece(tree.tokens[node])
    while children[node] and width(text) <= PHRASE:
        node = max(children[node], key=lambda child: tree.prob(child) or 0.0)
        text += piece(tree.tokens[node])
    return text


def _word(tokens: Sequence[int], piece: Callable[[int], str]) -> str:
    """The end of a text: its last word, of as many tokens as it has."""
    text = ""
    for token in reversed(tokens):
        text = piece(token) + text
        if text[:1] in " ⏎⇥" and text.strip(" ⏎⇥"):
            break
        if width(text) > PHRASE:
            break
    return text


# In words


def figures(run: Inspection, *, brief: bool = False) -> StyledLine:
    """Which step, and what it counts."""
    out = [(run.method, METHOD)]
    if not run.step:
        return (*out, ("  all of the answer", LABEL))
    of = f" of {run.steps:,}" if run.steps else ""
    out += [("  pass ", LABEL), (f"{run.step:,}", VALUE), ("" if brief else of, LABEL)]
    counts = ((f"{run.drafted:,}", "drafted "), (f"{run.accepted:,}", "accepted "), (f"{run.guessed:,}", "from the window "))
    for value, name in (counts if run.guessed else counts[:2]) if run.drafted else ():
        out += [(" · " + name, LABEL), (value, VALUE)]
    out += [(" · ", LABEL), (f"{run.count:,}", VALUE), (" token" if run.count == 1 else " tokens", LABEL)]
    return tuple(part for part in out if part[0])


def costs(run: Inspection, *, brief: bool = False) -> StyledLine:
    """Milliseconds and nodes."""
    total = sum(run.seconds)
    out = [(milliseconds(total), VALUE), (" ms", LABEL)] if total else []
    if run.nodes and not brief and total:
        out.append((f" = {shares(run)}", LABEL))
    if run.nodes:
        out += [(" · " if out else "", LABEL), (f"{run.nodes:,}", VALUE)]
        out.append((" node" if run.nodes == 1 else " nodes", LABEL))
    return tuple(part for part in out if part[0])


def shares(run: Inspection) -> str:
    """Milliseconds of each part of the step."""
    parts = zip(("draft", "pass", "rest"), run.seconds, strict=True)
    return " + ".join(f"{name} {milliseconds(seconds)}" for name, seconds in parts)


def tokens(run: Inspection, cells: int) -> StyledLine:
    """The run's tokens, those accepted apart from the model's own."""
    if not run.tokens:
        return ()
    checked = run.traced and (run.drafted or run.guessed)
    own = run.own if checked else 0
    accepted = run.tokens[: len(run.tokens) - own] if checked else ()
    others = run.tokens[len(accepted) :]
    name = "guessed " if run.guessed else "accepted "
    if not accepted:
        return _listed(others, "model’s own " if own else "tokens " if run.count > 1 else "token ", cells)
    if not others:
        return _listed(accepted, name, cells)
    out: StyledLine = ()
    for last in ("  model’s own ", "  own "):
        tail = _listed(others, last, max(12, cells // 2))
        out = (*_listed(accepted, name, cells - length(tail)), *tail)
        if len(out) == 2 * len(accepted) + 2:  # nothing left out
            break
    return out


def _listed(texts: Sequence[str], name: str, cells: int) -> StyledLine:
    """A name and tokens, as many as fit, and how many more there are."""
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
        out.append((fit(text, max(2, cells - used - gap)), LIT))
        used += gap + width(text)
    return tuple(out)


def verdict(run: Inspection, *, brief: bool = False) -> list[StyledLine]:
    """Sentences on what became of the draft, the most important first; brief ones have fewer words."""
    if not run.step:
        return [(("How this answer was decoded is not known: it came without its passes.", LABEL),)]
    if run.earlier or not run.count:
        return [((gathered(run, brief=brief), LABEL),)]
    if not run.drafted:
        return [_plain(run, brief=brief)]
    if not run.traced:
        refused = run.drafted - run.accepted
        if not refused:
            return [(("Every draft token was accepted.", LABEL),)]
        what = f"{refused:,} of {counted(run.drafted, 'draft token')} {'were' if refused > 1 else 'was'} rejected"
        return [((f"{what}." if brief else f"{what}. Which ones was not recorded.", LABEL),)]
    out = [_fork(fork, brief=brief) for fork in run.forks]
    if not (run.forks and run.forks[0].last):
        out.insert(0, _end(run, brief=brief))
    return out


def _plain(run: Inspection, *, brief: bool) -> StyledLine:
    if run.guessed:
        return ((_window(run, brief=brief), LABEL),)
    gave, sure = ("one token", run.prob) if run.count == 1 else (f"{run.count:,} tokens", None)
    if run.certainty == "unknown":
        return (("The server does not show its passes, nor what it drafted.", LABEL),)
    if run.certainty and run.count > 1:
        return ((f"One pass gave {gave}. The server does not tell what it drafted.", LABEL),)
    if brief:
        return ((f"No draft: one pass, {gave}{_chance(sure)}.", LABEL),)
    others = one_line(get_method(run.method).other_nodes) if run.nodes > 1 else ""
    return ((f"Nothing was drafted: one pass gave {gave}{_chance(sure, ' likely')}. {others}".rstrip(), LABEL),)


def gathered(run: Inspection, *, brief: bool = False) -> str:
    """The sentence about a step of beam search: a pass takes each of several texts one token further, and the step's tokens are
    those that have become certain by it."""
    over = f"this pass over {run.nodes:,} nodes" if run.nodes > 1 else "this pass"
    if not run.count:
        return "No token became certain." if brief else f"No token became certain in {over}: the beams still differ."
    these, each = ("This token", "It") if run.count == 1 else (f"These {run.count:,} tokens", "Each")
    if brief:
        return f"{these} became certain; {each.lower()} took its own pass."
    if not run.nodes:
        return f"{these} ended the best text when the search stopped. {each} had taken a pass of its own."
    return f"{these} became certain in {over}. {each} had taken a pass of its own."


def _window(run: Inspection, *, brief: bool) -> str:
    if brief:
        return f"{run.guessed:,} of {run.count:,} from the window."
    were = "token was" if run.guessed == 1 else "tokens were"
    return f"{run.guessed:,} {were} guessed by the window, and the model chose the same."


def _end(run: Inspection, *, brief: bool) -> StyledLine:
    """The sentence about a draft that was not refused where the run ended."""
    if run.guessed:
        return ((_window(run, brief=brief), LABEL),)
    if not run.own:
        rest = ", so the rest of the draft was not needed" if run.count < run.drafted else ""
        return ((f"The answer ended here{rest}.", LABEL),)
    own = quoted(run.tokens[-1].replace("␣", " "), SHORT_PHRASE if brief else PHRASE) if run.tokens else ""
    if run.accepted < run.drafted:
        said = "The draft went no further; the model added "
    else:
        which = {1: "the one draft token", 2: "both draft tokens"}.get(run.drafted, f"all {run.drafted:,} draft tokens")
        said = f"Accepted {which}, then " if brief else f"Accepted {which}, and the same pass gave one more: "
    return (said, LABEL), (own, LIT), (f"{_chance(run.prob)}.", LABEL)


def _fork(fork: DraftFork, *, brief: bool) -> StyledLine:
    cells = SHORT_PHRASE if brief else PHRASE
    texts = [branch.text for branch in fork.refused]
    marked = len({text.strip(" ") for text in (*texts, fork.taken)}) <= len(texts)  # they differ in blanks alone
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
    return (*out, (quoted(fork.taken, cells, marked=marked), LIT), (_chance(fork.prob), LABEL))


def _chance(prob: float | None, unit: str = "") -> str:
    return "" if prob is None else f" ({percent(prob)}{unit})"


def quoted(text: str, cells: int = PHRASE, *, marked: bool = False, end: bool = False) -> str:
    """Text in quotation marks, without the blanks around it unless it has nothing else, or they are what matters.

    Args:
        text: on one line, sanitised.
        cells: most of them inside the marks.
        marked: show its blanks.
        end: of a text that is too long, keep the end.
    """
    bare = text.strip(" ")
    shown = text.replace(" ", "␣") if marked or not bare else bare
    if end and width(shown) > cells:
        while width(shown) > cells - 1:
            shown = shown[1:]
        shown = "…" + shown
    return f"‘{fit(shown, cells)}’"
