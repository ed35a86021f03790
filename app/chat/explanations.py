"""How each decoding method works, in a few sentences for someone who sees it at work for the first time."""

from __future__ import annotations

from collections.abc import Mapping

EXPLAIN: Mapping[str, str] = {
    "greedy": (
        "The model reads the text once and says which token is most probable next; that token is added, and it reads on. "
        "Every token takes a whole pass over the model's weights, and most of that time goes into moving the weights, not "
        "into computing. Every other method here tries to get more than one token out of such a pass."
    ),
    "sample": (
        "As greedy, but the next token is drawn by the probabilities that the temperature and the other sampling settings "
        "leave. The draw depends only on the seed and the position in the text, so the same seed gives the same text under "
        "every method that is labelled identical."
    ),
    "recompute": (
        "Each pass reads the whole text again from its beginning instead of keeping what it computed for earlier tokens. The "
        "text comes out the same, ever more slowly as it grows: the difference to greedy is what the KV cache saves."
    ),
    "beam": (
        "Several beginnings of the answer are kept side by side and grow by a token in each pass; only the most probable ones "
        "stay. Text appears once all of them share it: often many tokens at a time, though each took a pass. The answer is the "
        "most probable whole text that was found, which is often not what greedy or sampling would write."
    ),
    "lookup": (
        "It takes the last few tokens, finds where they stood before in the prompt or the answer, and guesses that the text "
        "goes on as it did there. Long matches are trusted far, short ones for a token or two; several matches share one "
        "tree. The model checks all guesses in one pass and keeps those that it would have chosen itself, so a copied passage "
        "comes many tokens at a time."
    ),
    "ngram": (
        "It remembers every short sequence of tokens that was accepted, by its first tokens. When the text ends in such a "
        "beginning, all known continuations are guessed at once and checked in one pass. It learns as the answer grows and "
        "keeps what it learned for the next turns of the chat."
    ),
    "recycle": (
        "Whenever the model evaluates a token, the next tokens that it found most probable are written into a table. Later, a "
        "tree of guesses is grown from that table: the likely successors of the last token, their successors, and so on. It "
        "starts with nothing, needs no second model, and improves within a page of text."
    ),
    "jacobi": (
        "A block of guesses, at first mere tokens of the text, is checked in one pass, which also says what the model would "
        "have put at each place. Those become the next guesses, until they stop changing. Guesses that come right early are "
        "accepted in one go; with most models that is an extra token now and then."
    ),
    "lookahead": (
        "Beside the answer the model keeps a window of guesses some places ahead and refreshes it in every pass. Out of it "
        "come short sequences that hang together, and those that begin with the last token are checked in the very same pass. "
        "It buys fewer passes with much more computation in each."
    ),
    "draft": (
        "A small model writes a few tokens ahead, one after the other, which it can do quickly; what it copies from the text "
        "it checks all at once. The large model then checks all of them in a single pass, keeps them up to the first that it "
        "would not have chosen, and adds its own choice there. The more often the two agree, and the cheaper the small one, "
        "the more is gained."
    ),
    "early-exit": (
        "The model drafts for itself: only its first layers run, and their guess counts as a draft token. Then the remaining "
        "layers check the whole draft in one pass, going on from what the first layers have computed. No second model is "
        "needed, and no layer runs twice for a token. Single attention and MLP blocks may be left out of the draft as well, "
        "wherever the model can do without them."
    ),
    "tree": (
        "A draft model guesses not one continuation but several, as a tree: where it is unsure the tree branches, where it is "
        "sure it grows deep. One pass of the large model checks all branches, and the one that it agrees with longest is "
        "kept. A wrong first guess no longer costs the whole draft."
    ),
    "fusion": (
        "Everything known about the text votes on what comes next: matches of every length, what followed in earlier answers, "
        "and what the model itself found probable before. The votes become probabilities, and one tree is grown best first, "
        "each node where it is most likely to be accepted. What each kind of evidence is worth is learned from what was "
        "accepted."
    ),
    "auto": (
        "Before each step it estimates how many tokens per second every way of drafting would give: fusion's tree of each "
        "size, a draft model, early exit, or none at all. It takes the best and measures as it goes, so that it falls back to "
        "plain decoding where nothing pays. The note above the tree says when it changes its mind."
    ),
}
"""Method → how it works. Methods of other packages have only their own summary."""

WINDOWED = "lookahead"
"""The method whose passes have guesses beside the draft."""

OTHER_NODES: Mapping[str, str] = {
    "recompute": "Its other nodes are the text before, read once more.",
    WINDOWED: "Its other nodes are the window, which finds later guesses.",
}
"""Method → what the nodes of its passes are for that check no guess."""

LABELS: Mapping[str, str] = {
    "identical": "The text is exactly what plain decoding would write, token for token, only sooner.",
    "identical, near ties checked": "The text is what plain decoding would write, as far as this machine's rounding allows: "
    "where two tokens are nearly equal, a pass of one node decides.",
    "identical but for near ties": "The text is what plain decoding would write, except where two tokens are nearly equal: a "
    "pass of many nodes rounds otherwise, and the other one may win.",
    "same distribution": "The tokens may differ from plain decoding's, but each is as probable as under plain sampling.",
    "lossy": "The text may differ from what the model would write by itself, and may be worse.",
}
"""Label → what it promises."""
