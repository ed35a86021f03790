"""Facts on decoding methods."""

from .fact import Fact, fact

# Formatted by hand: one fact, three lines of text.
# fmt: off
METHODS: list[Fact] = [
    fact("greedy decoding|greedy|the greedy method",
         "Greedy decoding takes the [most probable token] at every step.",
         "It needs one forward pass for each token and always gives the same text for the same prompt. "
         "Every method that is labelled identical must give exactly its tokens."),
    fact("sampling|the sample method|random sampling",
         "Sampling draws the next token [at random from the model's probabilities].",
         "Temperature, top-k, top-p and min-p decide which tokens may be drawn. "
         "With a fixed seed the same text comes out again."),
    fact("recompute|the recompute method|decoding without a KV cache",
         "Recompute is greedy decoding [without a KV cache].",
         "It evaluates the whole text again for every new token, so its cost grows with the length of the answer. "
         "It is there to show how much the KV cache saves."),
    fact("beam search|beam|the beam method",
         "Beam search keeps [the B best partial answers] and extends all of them at every step.",
         "At the end it returns the one with the best score, usually corrected by a length penalty. "
         "It has its own reference, because its text is not greedy's text."),
    fact("prompt lookup|lookup|prompt lookup decoding|the lookup method",
         "Prompt lookup searches the text so far for the last few tokens and [drafts what followed them] there.",
         "It needs no draft model and costs almost nothing. "
         "It flies when the answer repeats the prompt, as in copying, editing and summaries, "
         "and gains little in a new story."),
    fact("n-gram decoding|the ngram method|LADE|the n-gram method",
         "N-gram decoding drafts from a [table of token sequences] that the model itself has produced.",
         "The key is the last token, and the values are continuations that were verified before. "
         "It needs no second model and learns while the answer is written."),
    fact("token recycling|recycle|the recycle method|recycling",
         "Token recycling keeps the model's [top candidates for each token] and drafts a tree from that table.",
         "The candidates are left over from earlier passes, so they cost nothing. "
         "The table stays when the method or the turn changes."),
    fact("Jacobi decoding|jacobi|the jacobi method|Jacobi iteration",
         "Jacobi decoding guesses a block of K tokens and [refreshes all of them in parallel] until they stop changing.",
         "The guesses whose inputs equal the new choices are accepted, plus one. "
         "The block reaches its fixed point in at most K steps."),
    fact("lookahead decoding|lookahead|the lookahead method",
         "Lookahead decoding runs [a Jacobi window and a pool of n-grams] in the same forward pass.",
         "The window of width W creates new n-grams of N tokens, and up to G of them are verified at each step. "
         "It needs no draft model but evaluates many extra nodes."),
    fact("draft model decoding|the draft method|draft|assisted generation|decoding with a draft model",
         "The draft method lets a [small model write K tokens], which the target model verifies in one pass.",
         "The more often both models agree, the more tokens each pass yields. "
         "Both models should share one tokenizer."),
    fact("self-speculative decoding|self-speculation|early exit|the early-exit method|early-exit",
         "Self-speculative decoding drafts with the [first layers of the target model] itself.",
         "The full pass then continues from the hidden states that were kept, so no layer runs twice. "
         "It needs no second model and no second cache."),
    fact("tree speculation|the tree method|SpecInfer|tree drafting",
         "Tree speculation drafts [several continuations as a tree] and verifies all of them in one pass.",
         "A node sees the committed prefix, its ancestors and itself. "
         "SpecInfer expands the top candidates of a draft model and can merge several drafters."),
    fact("PARD|the pard method|parallel drafting",
         "PARD lets a draft model [guess several tokens in one pass].",
         "Mask tokens stand for those that it does not know yet. The draft model has to be trained for it."),
    fact("fusion|the fusion method|fused drafting",
         "Fusion joins [all drafting evidence in one probability model] and grows one tree best first.",
         "N-grams of the context, recycled candidates and a draft model can all feed the same tree. "
         "A node budget limits what a step may cost."),
    fact("the auto method|auto|automatic method choice",
         "Auto [picks the decoding method] and its draft length while the answer is being written.",
         "It compares measured seconds and acceptance. "
         "It says so when speculation hurts and then turns it off."),
    fact("speculative decoding|speculation|speculative sampling",
         "Speculative decoding drafts several tokens cheaply and [verifies them in one pass] of the target model.",
         "One pass over many tokens costs little more than a pass over one, because decoding is limited by memory. "
         "The text stays the same; only the time changes."),
    fact("rejection sampling|the rejection rule|rejection",
         "Rejection sampling accepts a draft token [with probability min(1, p/q)].",
         "If the token is rejected, the next one is drawn from the positive part of p minus q. "
         "This keeps exactly the distribution of the target model."),
    fact("typical acceptance|typical|soft matching|lossy acceptance",
         "Typical acceptance also keeps draft tokens that are [merely likely enough].",
         "It accepts more tokens than exact matching. "
         "It is lossy: the text may differ from the plain method's text."),
    fact("exact matching|exact match verification|exact verification",
         "Exact matching accepts a draft token [only if the target model chooses the same token] itself.",
         "It works for greedy decoding and, with a fixed seed, for sampling too. "
         "The result is labelled identical."),
]
# fmt: on
