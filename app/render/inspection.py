"""Inspection of one run in the rows of a strip: its step, its costs, and the fate of its draft."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...engine.messages import StepRecord
from ...errors import counted
from ..chat.entries import Answer
from ..chat.methods import get_method
from ..chat.runs import Pieces
from ..text.amounts import milliseconds
from ..text.cells import fit, one_line, sanitise, width
from ..text.charts import percent
from ..text.lines import StyledLine, cut, ends, flowed, length
from .tree_rows import StepTree, visible

METHOD, LABEL, VALUE, CONTEXT = "bold $primary", "$quiet", "bold $foreground", "$foreground"
REFUSED, NOTE = "bold $error", "italic $accent"
RUN = "run"
"""Placeholder for the style of the run itself: of accepted tokens, and of the bonus token."""

PHRASE = 28
"""Longest text in quotes, in cells."""

CONTEXT_PHRASE = 18
"""Longest text in quotes that stands before a fork, in cells."""

TOKENS_BEFORE = 12
"""Tokens before a run that are searched for the last word."""

BRANCHES = 3
"""Most refused branches quoted at one place."""

JOINED = "\N{NO-BREAK SPACE}"
"""Placeholder for the blanks of a quotation while its sentence is broken into rows."""


def strip_rows(height: int) -> int:
    """Return the rows of the strip over a transcript of that height."""
    return max(2, min(4, height // 4))


def inspection_rows(answer: Answer, index: int, pieces: Pieces, cells: int, rows: int, keys: str = "") -> list[StyledLine]:
    """Lay out run number `index` in at most `rows` rows: figures, tokens, and the reason for the run's end.

    Args:
        pieces: token texts of the answer's model.
        keys: keys to name at the end of the last row.
    """
    if index >= len(answer.log):
        unknown = "How this answer was decoded is not known: it came without its passes."
        return [((one_line(answer.runs[index].method), METHOD),), *wrapped(((unknown, LABEL),), cells, rows - 1)]
    record = answer.log.record(index)
    before = _before(answer, index)
    tree = StepTree.of(record, before[-1] if before else -1)
    count = ((f"{len(record.tokens):,}", VALUE), (" token" if len(record.tokens) == 1 else " tokens", LABEL))
    figures = dotted(heading(answer, index), *counts(record))
    cost = dotted(*costs(answer, record))
    if length(figures) + length(count) + length(cost) + 6 <= cells:
        figures = dotted(figures, count)
    out = [ends(figures, cost, cells)]
    if rows > 3 and record.tokens:
        texts = [visible(pieces.text(token)) for token in record.tokens] if len(pieces) else [_own_line(answer, index)]
        tokens = _tokens(record, tree, texts, cells) if any(texts) else ()
        out.append(ends(tokens, shares(record) if not answer.figures.certainty else (), cells))
    sentences = _verdict(answer, record, tree, before, pieces)
    if record.note:
        sentences.append(((one_line(record.note), NOTE),))
    out += wrapped(sentences[0], cells, rows - len(out))
    for sentence in sentences[1:]:  # whole ones: what is left out of a sentence may be all that matters
        broken = wrapped(sentence, cells, rows)
        out += broken if len(out) + len(broken) <= rows else []
    if keys and len(out) <= rows:
        out += [()] * (rows - len(out))
        out[-1] = ends(out[-1], ((f"  {keys}", LABEL),), cells)
    return [cut(row, cells) for row in out[:rows]]


def _own_line(answer: Answer, index: int) -> str:
    """Return a run's text on one line, with signs for blanks and control characters."""
    return sanitise(answer.own_text(index)).replace("\n", "⏎").replace("\t", "⇥").replace(" ", "␣")


def _before(answer: Answer, index: int) -> list[int]:
    """Return the tokens before a run, as many as it takes to quote the text there."""
    tokens: list[int] = []
    for step in range(index - 1, -1, -1):
        tokens = [*answer.log.record(step).tokens, *tokens]
        if len(tokens) >= TOKENS_BEFORE:
            break
    return tokens[-TOKENS_BEFORE:]


def _guessed(record: StepRecord, tree: StepTree) -> int:
    """Count the tokens that no draft had, but other nodes of the pass (lookahead's window)."""
    if not get_method(record.method).other_nodes:
        return 0
    return max(0, len(record.tokens) - record.accepted - (tree.choice is not None))


# Figures


def heading(answer: Answer, index: int) -> StyledLine:
    """Format the method and the number of a pass."""
    number, passes = answer.pass_of(index)
    of = f" of {passes:,}" if passes else ""
    return (one_line(answer.runs[index].method), METHOD), ("  pass ", LABEL), (f"{number:,}", VALUE), (of, LABEL)


def counts(record: StepRecord) -> list[StyledLine]:
    """Count the draft tokens of a step that drafted."""
    figures = {"drafted": record.drafted, "accepted": record.accepted} if record.drafted else {}
    return [((f"{name} ", LABEL), (f"{count:,}", VALUE)) for name, count in figures.items()]


def costs(answer: Answer, record: StepRecord) -> list[StyledLine]:
    """Format the milliseconds and the nodes of a step; a server's nodes are known if it drafted."""
    figures: list[StyledLine] = []
    if record.seconds:
        figures.append(((milliseconds(record.seconds), VALUE), (" ms", LABEL)))
    if record.nodes and (record.drafted or not answer.figures.certainty):
        figures.append(((f"{record.nodes:,}", VALUE), (" node" if record.nodes == 1 else " nodes", LABEL)))
    return figures


def shares(record: StepRecord) -> StyledLine:
    """Format the milliseconds of each part of the step."""
    seconds = {"draft": record.draft_seconds, "pass": record.forward_seconds, "rest": record.other_seconds}
    parts = " + ".join(f"{name} {milliseconds(part)}" for name, part in seconds.items())
    return ((f"{parts} ms", LABEL),) if record.seconds else ()


def dotted(*parts: StyledLine, sign: str = " · ") -> StyledLine:
    """Join parts with a sign between them."""
    return tuple(piece for part in parts for piece in ((sign, LABEL), *part))[1:]


def _tokens(record: StepRecord, tree: StepTree, texts: Sequence[str], cells: int) -> StyledLine:
    """List the run's tokens, the accepted ones first, the bonus token after them."""
    guessed = _guessed(record, tree)
    bonus = int(tree.choice is not None)
    traced = len(texts) == len(record.tokens) and (guessed or (record.drafted and record.tree_tokens))
    accepted = texts[: len(texts) - bonus] if traced else ()
    rest = texts[len(accepted) :]
    if not accepted:
        name = "tokens " if len(rest) > 1 else "token "
        return _list(rest, "model’s own " if traced and bonus else name, cells)
    tail = _list(rest, "  model’s own ", max(12, cells // 2)) if rest else ()
    return (*_list(accepted, "guessed " if guessed else "accepted ", cells - length(tail)), *tail)


def _list(texts: Sequence[str], name: str, cells: int) -> StyledLine:
    """List a name and as many tokens as fit, and the number of the others."""
    out = [(name, LABEL), (fit(texts[0], max(2, cells - width(name))), RUN)]
    used = length(tuple(out))
    for i, text in enumerate(texts[1:], 1):
        more = f" … {len(texts) - i} more"
        used += 1 + width(text)
        if used + (width(more) if i < len(texts) - 1 else 0) > cells:
            out.append((more, LABEL))
            break
        out += [(" ", LABEL), (text, RUN)]
    return tuple(out)


# The fate of the draft


def _verdict(answer: Answer, record: StepRecord, tree: StepTree, before: Sequence[int], pieces: Pieces) -> list[StyledLine]:
    """Explain the fate of the draft in sentences, the most important first."""
    count = len(record.tokens)
    guessed = _guessed(record, tree)
    if record.earlier or not count:
        return [((beam_sentence(record), LABEL),)]
    if record.drafted and not record.tree_tokens:
        refused = record.drafted - record.accepted
        rejected = f"{refused:,} of {counted(record.drafted, 'draft token')} {'were' if refused > 1 else 'was'} rejected"
        return [((f"{rejected}. Which ones was not recorded." if refused else "Every draft token was accepted.", LABEL),)]
    if record.drafted:
        forks = _forks(tree, before, pieces.text)
        if forks and forks[0][0]:
            return [sentence for _, sentence in forks]
        ending = _end(record, tree, pieces) if not guessed else ((_window(guessed), LABEL),)
        return [ending, *(sentence for _, sentence in forks)]
    if guessed:
        return [((_window(guessed), LABEL),)]
    amount = "one token" if count == 1 else f"{count:,} tokens"
    if answer.figures.certainty == "unknown":
        return [(("The server does not show its passes, nor what it drafted.", LABEL),)]
    if answer.figures.certainty and count > 1:
        return [((f"One pass gave {amount}. The server does not tell what it drafted.", LABEL),)]
    prob = _last_prob(tree) if count == 1 else None
    other_nodes = get_method(record.method).other_nodes if record.nodes > 1 and not answer.figures.certainty else ""
    chance = _chance(prob, " likely")
    return [((f"Nothing was drafted: one pass gave {amount}{chance}. {one_line(other_nodes)}".rstrip(), LABEL),)]


def beam_sentence(record: StepRecord) -> str:
    """Explain a step of beam search: a pass extends each of several texts by one token, and the step's tokens are those that
    became certain by it."""
    count = len(record.tokens)
    over = f"this pass over {record.nodes:,} nodes" if record.nodes > 1 else "this pass"
    if not count:
        return f"No token became certain in {over}: the beams still differ."
    these = "This token" if count == 1 else f"These {count:,} tokens"
    pronoun = "It" if count == 1 else "Each"
    if not record.nodes:
        return f"{these} ended the best text when the search stopped. {pronoun} had taken a pass of its own."
    return f"{these} became certain in {over}. {pronoun} had taken a pass of its own."


def _window(guessed: int) -> str:
    were = "token was" if guessed == 1 else "tokens were"
    return f"{guessed:,} {were} guessed by the window, and the model chose the same."


def _end(record: StepRecord, tree: StepTree, pieces: Pieces) -> StyledLine:
    """Explain the end of a run at which nothing was refused."""
    if tree.choice is None:
        rest = ", so the rest of the draft was not needed" if len(record.tokens) < record.drafted else ""
        return ((f"The answer ended here{rest}.", LABEL),)
    if record.accepted < record.drafted:
        words = "The draft went no further; the model added "
    else:
        which = "the one draft token" if record.drafted == 1 else f"all {record.drafted:,} draft tokens"
        words = f"Accepted {which}, and the same pass gave one more: "
    chance = _chance(_last_prob(tree))
    return (words, LABEL), (quoted(visible(pieces.text(tree.choice)).replace("␣", " ")), RUN), (f"{chance}.", LABEL)


def _forks(tree: StepTree, before: Sequence[int], piece: Callable[[int], str]) -> list[tuple[bool, StyledLine]]:
    """Describe the nodes of the path at which something was refused, the last one first: whether the run ended there, and the
    sentence."""
    children: list[list[int]] = [[] for _ in tree.tokens]
    for node in range(1, min(tree.guesses, len(tree.tokens))):
        children[tree.parents[node]].append(node)

    def likelihood(node: int) -> float:
        return tree.prob(node) or 0.0

    def branch(node: int) -> str:
        """Return the text of a branch, along its first or likeliest nodes."""
        text = piece(tree.tokens[node])
        while children[node] and width(text) <= PHRASE:
            node = max(children[node], key=likelihood)
            text += piece(tree.tokens[node])
        return text

    out: list[tuple[bool, StyledLine]] = []
    for place, node in enumerate(tree.path):
        following = tree.path[place + 1] if place + 1 < len(tree.path) else None
        last = following is None
        refused = sorted((child for child in children[node] if child != following), key=likelihood, reverse=True)
        if not refused or (last and tree.choice is None):
            continue
        chosen = piece(tree.tokens[following] if following is not None else tree.choice or 0)
        prob = tree.prob(following) if following is not None else _last_prob(tree)
        texts = [branch(child) for child in refused]
        marked = len({text.strip(" ") for text in (*texts, chosen)}) <= len(texts)  # some differ in blanks alone
        context = [*before[:-1], *(tree.tokens[passed] for passed in tree.path[: place + 1])]
        after = quoted(_last_word(context, piece), CONTEXT_PHRASE, end=True)
        parts = [("After ", LABEL), (after, CONTEXT)] if before or place else [("At the start", LABEL)]
        parts.append((" the draft said " if last else " the draft also said ", LABEL))
        for i, text in enumerate(texts[:BRANCHES]):
            if i:
                parts.append((" or " if i == len(texts) - 1 else ", ", LABEL))
            chance = _chance(tree.prob(refused[i]), "" if i else " likely")
            parts += [(quoted(text, marked=marked), REFUSED), (chance, LABEL)]
        if (rest := len(texts) - BRANCHES) > 0:
            parts.append((f" or {rest} more", LABEL))
        parts.append((", the model chose " if last else ", the model went with ", LABEL))
        out.append((last, (*parts, (quoted(chosen, marked=marked), RUN), (_chance(prob), LABEL))))
    return out[::-1]


def _last_prob(tree: StepTree) -> float | None:
    return tree.probs[-1] if tree.probs else None


def _last_word(tokens: Sequence[int], piece: Callable[[int], str]) -> str:
    """Return the last word of a text, which may have several tokens."""
    text = ""
    for token in reversed(tokens):
        text = piece(token) + text
        if (text[:1] in " ⏎⇥" and text.strip(" ⏎⇥")) or width(text) > PHRASE:
            break
    return text


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


def wrapped(parts: StyledLine, cells: int, most: int) -> list[StyledLine]:
    """Wrap a sentence to at most `most` rows at blanks outside of quotations; the last row is cut."""
    joined = tuple((text if style in (LABEL, NOTE) else text.replace(" ", JOINED), style) for text, style in parts)
    rows = flowed(joined, cells, most)
    return [tuple((text.replace(JOINED, " "), style) for text, style in row) for row in rows]
