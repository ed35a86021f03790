"""What the model knows: decoding methods, the parts of a language model, and specchat itself.

Each fact is a name with its aliases, one sentence that stands alone, and the sentences that follow when a longer
answer is wanted. One wording for each fact: a model of this size learns one sentence well, or five badly.
"""

from typing import NamedTuple


class Fact(NamedTuple):
    """One topic: how people call it, the answer in a sentence, and the rest of the longer answer."""

    names: tuple[str, ...]
    short: str
    more: str


def _fact(names: str, short: str, more: str) -> Fact:
    return Fact(tuple(names.split("|")), short, more)


# Formatted by hand: one fact, three lines of text.
# fmt: off
METHODS: list[Fact] = [
    _fact("greedy decoding|greedy|the greedy method",
          "Greedy decoding takes the most probable token at every step.",
          "It needs one forward pass for each token and always gives the same text for the same prompt. "
          "Every method that is labelled identical must give exactly its tokens."),
    _fact("sampling|the sample method|random sampling",
          "Sampling draws the next token at random from the model's probabilities.",
          "Temperature, top-k, top-p and min-p decide which tokens may be drawn. "
          "With a fixed seed the same text comes out again."),
    _fact("recompute|the recompute method|decoding without a KV cache",
          "Recompute is greedy decoding without a KV cache.",
          "It evaluates the whole text again for every new token, so its cost grows with the length of the answer. "
          "It is there to show how much the KV cache saves."),
    _fact("beam search|beam|the beam method",
          "Beam search keeps the B best partial answers and extends all of them at every step.",
          "At the end it returns the one with the best score, usually corrected by a length penalty. "
          "It has its own reference, because its text is not greedy's text."),
    _fact("prompt lookup|lookup|prompt lookup decoding|the lookup method",
          "Prompt lookup searches the text so far for the last few tokens and drafts what followed them there.",
          "It needs no draft model and costs almost nothing. "
          "It flies when the answer repeats the prompt, as in copying, editing and summaries, "
          "and gains little in a new story."),
    _fact("n-gram decoding|the ngram method|LADE|the n-gram method",
          "N-gram decoding drafts from a table of token sequences that the model itself has produced.",
          "The key is the last token, and the values are continuations that were verified before. "
          "It needs no second model and learns while the answer is written."),
    _fact("token recycling|recycle|the recycle method|recycling",
          "Token recycling keeps the model's top candidates for each token and drafts a tree from that table.",
          "The candidates are left over from earlier passes, so they cost nothing. "
          "The table stays when the method or the turn changes."),
    _fact("Jacobi decoding|jacobi|the jacobi method|Jacobi iteration",
          "Jacobi decoding guesses a block of K tokens and refreshes all of them in parallel until they stop changing.",
          "The guesses whose inputs equal the new choices are accepted, plus one. "
          "The block reaches its fixed point in at most K steps."),
    _fact("lookahead decoding|lookahead|the lookahead method",
          "Lookahead decoding runs a Jacobi window and a pool of n-grams in the same forward pass.",
          "The window of width W creates new n-grams of N tokens, and up to G of them are verified at each step. "
          "It needs no draft model but evaluates many extra nodes."),
    _fact("draft model decoding|the draft method|draft|assisted generation|decoding with a draft model",
          "The draft method lets a small model write K tokens, which the target model verifies in one pass.",
          "The more often both models agree, the more tokens each pass yields. "
          "Both models should share one tokenizer."),
    _fact("self-speculative decoding|self-speculation|early exit|the early-exit method|early-exit",
          "Self-speculative decoding drafts with the first layers of the target model itself.",
          "The full pass then continues from the hidden states that were kept, so no layer runs twice. "
          "It needs no second model and no second cache."),
    _fact("tree speculation|the tree method|SpecInfer|tree drafting",
          "Tree speculation drafts several continuations as a tree and verifies all of them in one pass.",
          "A node sees the committed prefix, its ancestors and itself. "
          "SpecInfer expands the top candidates of a draft model and can merge several drafters."),
    _fact("fusion|the fusion method|fused drafting",
          "Fusion joins all drafting evidence in one probability model and grows one tree best first.",
          "N-grams of the context, recycled candidates and a draft model can all feed the same tree. "
          "A node budget limits what a step may cost."),
    _fact("the auto method|auto|automatic method choice",
          "Auto picks the decoding method and its draft length while the answer is being written.",
          "It compares measured seconds and acceptance. "
          "It says so when speculation hurts and then turns it off."),
    _fact("speculative decoding|speculation|speculative sampling",
          "Speculative decoding drafts several tokens cheaply and verifies them in one pass of the target model.",
          "One pass over many tokens costs little more than a pass over one, because decoding is limited by memory. "
          "The text stays the same; only the time changes."),
    _fact("rejection sampling|the rejection rule|rejection",
          "Rejection sampling accepts a draft token with probability min(1, p/q).",
          "If the token is rejected, the next one is drawn from the positive part of p minus q. "
          "This keeps exactly the distribution of the target model."),
    _fact("typical acceptance|typical|soft matching|lossy acceptance",
          "Typical acceptance also keeps draft tokens that are merely likely enough.",
          "It accepts more tokens than exact matching. "
          "It is lossy: the text may differ from the plain method's text."),
    _fact("exact matching|exact match verification|exact verification",
          "Exact matching accepts a draft token only if the target model chooses the same token itself.",
          "It works for greedy decoding and, with a fixed seed, for sampling too. "
          "The result is labelled identical."),
]

CONCEPTS: list[Fact] = [
    _fact("temperature|the temperature setting",
          "Temperature divides the logits before sampling.",
          "Below one it makes the likely tokens even likelier, above one it makes the choice more random. "
          "Temperature 0 means greedy decoding."),
    _fact("top-k|top-k sampling|the top-k setting",
          "Top-k keeps only the k most probable tokens before sampling.",
          "All other tokens get probability zero. A value of 1 is the same as greedy decoding."),
    _fact("top-p|nucleus sampling|top-p sampling",
          "Top-p keeps the smallest set of tokens whose probabilities sum to at least p.",
          "It is also called nucleus sampling. The set is small when the model is sure and large when it is not."),
    _fact("min-p|min-p sampling|the min-p setting",
          "Min-p drops every token whose probability is below min-p times that of the best token.",
          "It adapts to how sure the model is. A value of 0.1 keeps tokens with at least a tenth of the best one."),
    _fact("a repetition penalty|repetition penalty|penalties",
          "A repetition penalty lowers the scores of tokens that are already in the text.",
          "It helps against loops. In a token tree it has to follow the path of each node."),
    _fact("a seed|the seed|the random seed",
          "A seed is the number that fixes the random choices of sampling.",
          "The same seed gives the same text under every method that is labelled identical."),
    _fact("Gumbel noise|the Gumbel trick|Gumbel sampling",
          "Gumbel noise turns sampling into an argmax: the token with the largest log probability plus noise wins.",
          "The noise depends only on the seed, the position and the token. "
          "So a draft does not change which text comes out."),
    _fact("the KV cache|KV cache|a KV cache|the key-value cache",
          "The KV cache stores the keys and values of the tokens that were already evaluated.",
          "With it a step has to compute only the new tokens. It grows with the length of the chat."),
    _fact("prefill|the prefill phase|prompt processing",
          "Prefill is the pass that evaluates the whole prompt and fills the KV cache.",
          "Many tokens are computed in parallel, so it is limited by arithmetic. "
          "It decides how long you wait for the first token."),
    _fact("decode|the decode phase|the decoding phase",
          "Decode is the phase after prefill, in which the answer grows step by step.",
          "Each step reads all weights for only a few tokens, so it is limited by memory bandwidth. "
          "Speculative decoding makes better use of these reads."),
    _fact("the acceptance rate|acceptance rate|acceptance",
          "The acceptance rate is the share of draft tokens that the target model accepted.",
          "It is accepted divided by drafted tokens. A high rate allows longer drafts."),
    _fact("tokens per step|the compression ratio|mean accepted tokens",
          "Tokens per step is the mean number of tokens that one forward pass produced.",
          "Plain decoding has exactly 1. It is the mean number of accepted draft tokens plus one."),
    _fact("nodes per token|the node cost",
          "Nodes per token is the number of tree nodes evaluated for each token produced.",
          "It shows what the speed costs in computation. Plain decoding has 1."),
    _fact("the draft length|draft length|K",
          "The draft length K is the number of tokens that are drafted before each verification.",
          "A long draft pays when acceptance is high; otherwise most of it is thrown away. "
          "Schedules change K while the answer is written."),
    _fact("a draft model|draft model|the small model",
          "A draft model is a small, quick language model that proposes tokens for a larger one.",
          "It should share the tokenizer of the target model. The target checks every token it proposes."),
    _fact("the target model|target model|a target model",
          "The target model is the model whose answer you want.",
          "It verifies what the drafter proposes and has the last word on every token."),
    _fact("a drafter|drafter|the drafter",
          "A drafter is anything that proposes tokens: a draft model, an n-gram table or a search in the prompt.",
          "It drafts a tree, and it learns from what was accepted. A bad drafter costs time but never changes the text."),
    _fact("a token tree|token tree|the token tree",
          "A token tree is a set of draft tokens with a parent for each, so that several continuations share a prefix.",
          "One forward pass verifies the whole tree. "
          "The position of a node is its depth, and a chain is a tree with one branch."),
    _fact("tree attention|the tree mask|a tree attention mask",
          "Tree attention is an attention mask in which a node sees only the prefix, its ancestors and itself.",
          "It lets one forward pass evaluate many branches without mixing them."),
    _fact("verification|verify|the verify step",
          "Verification runs the target model once over all draft tokens and keeps those it would have chosen.",
          "The first wrong token is replaced by the target's own choice. So each step yields at least one token."),
    _fact("an n-gram|n-gram|n-grams",
          "An n-gram is a sequence of n neighboring tokens.",
          "A table of n-grams can predict how a text goes on. Prompt lookup and lookahead decoding both use them."),
    _fact("a token|token|tokens",
          "A token is a piece of text, often a word or a part of a word, that the model reads and writes as one unit.",
          "The tokenizer maps text to token numbers and back."),
    _fact("a tokenizer|tokenizer|the tokenizer",
          "A tokenizer splits text into tokens and turns tokens back into text.",
          "Mine is a byte-level BPE tokenizer with 2,048 tokens, so it can write any text."),
    _fact("byte-pair encoding|BPE|byte-level BPE",
          "Byte-pair encoding builds a vocabulary by merging the most frequent pairs of pieces again and again.",
          "The byte-level form starts from the 256 bytes, so no text is ever unknown."),
    _fact("a logit|logits|the logits",
          "Logits are the raw scores that a model gives to every token of its vocabulary.",
          "A softmax turns them into probabilities."),
    _fact("softmax|the softmax",
          "Softmax turns logits into probabilities that sum to one.",
          "It takes the exponential of each logit and divides it by the sum of all of them."),
    _fact("argmax|the argmax",
          "Argmax is the index of the largest value.",
          "Greedy decoding takes the argmax of the logits at every step; a tie goes to the lowest token number."),
    _fact("a forward pass|forward pass|one forward pass",
          "A forward pass runs the model once over one or more tokens and gives scores for what may follow each.",
          "Reading the weights is the expensive part, so a few extra tokens cost little."),
    _fact("EOS|the EOS token|the end-of-sequence token",
          "EOS is the token with which a model says that its answer is complete.",
          "A drafter never drafts past it."),
    _fact("the context|the context length|context window",
          "The context is everything the model can see: the system message, the chat so far and its own answer.",
          "My context holds 2,048 tokens."),
    _fact("a chat template|chat template|the chat template",
          "A chat template turns the messages of a chat into the one text that the model was trained on.",
          "It marks who is speaking and where a message ends."),
    _fact("an embedding|embeddings|token embeddings",
          "An embedding is the vector of numbers that stands for a token inside the model.",
          "Mine are shared with the output layer, which saves weights."),
    _fact("attention|self-attention|the attention mechanism",
          "Attention lets each token read information from the tokens before it.",
          "Queries are compared with keys, and the best matching values are mixed. Copying text is done by attention."),
    _fact("a transformer|transformer|the transformer architecture",
          "A transformer is a neural network made of layers of attention and small feed-forward networks.",
          "Nearly all language models are transformers, and so am I."),
    _fact("RoPE|rotary embeddings|rotary position embeddings",
          "RoPE rotates queries and keys by an angle that depends on the position of the token.",
          "So attention sees how far apart two tokens are."),
    _fact("quantization|quantisation|quantized weights",
          "Quantization stores the weights of a model with fewer bits.",
          "It makes models smaller and decoding quicker, at the price of a little precision."),
    _fact("GGUF|the GGUF format|a GGUF file",
          "GGUF is the file format of llama.cpp: weights, tokenizer and settings in one file.",
          "The weights are often quantized, for example to Q8_0 or to a 4-bit type."),
    _fact("safetensors|the safetensors format",
          "Safetensors is a file format for model weights that cannot run code when it is loaded.",
          "Specchat loads safetensors only, never pickle files."),
    _fact("llama.cpp|the llama.cpp backend",
          "Llama.cpp is a runtime for language models in C++ that reads GGUF files.",
          "Specchat can use it as a backend beside transformers."),
    _fact("transformers|the transformers library|Hugging Face transformers",
          "Transformers is the Python library by Hugging Face that runs language models with PyTorch.",
          "Specchat uses it as a backend and evaluates token trees with its own cache."),
    _fact("latency|time to first token",
          "Time to first token is how long you wait until the answer begins.",
          "It is mostly the time of the prefill, so a reused prefix makes it short."),
    _fact("throughput|tokens per second",
          "Tokens per second tells how quickly the answer is written.",
          "Speculative decoding raises it by producing several tokens in one forward pass."),
    _fact("memory bandwidth|why decoding is slow",
          "Decoding is slow because each step has to read all weights from memory for a single token.",
          "The arithmetic units wait meanwhile. Verifying several draft tokens at once uses the same read."),
    _fact("the speedup formula|the expected speedup|speedup",
          "The speedup is (aK + 1) / (K c + 1), with acceptance a, draft length K and relative draft cost c.",
          "A cheap drafter and a high acceptance rate make it large. If it is below one, speculation hurts."),
    _fact("identical|the identical label",
          "Identical means that a method gives exactly the tokens of the plain method.",
          "The other labels are same distribution, for rejection sampling, and lossy, for soft or typical acceptance."),
]

PARTS: list[Fact] = [
    _fact("specchat|this program|spec chat",
          "Specchat is a chat in the terminal that shows how a local language model decodes.",
          "Tokens that came out of one forward pass together share a color. "
          "A key switches the decoding method in the middle of an answer."),
    _fact("the engine|specchat's engine|the engine process",
          "The engine is the process of its own that runs the models in the background.",
          "The interface talks to it by messages, so a crash costs one answer and never the chat."),
    _fact("a backend|the backends|specchat's backends",
          "A backend is a model runtime that can evaluate a token tree.",
          "Specchat has backends for transformers, for llama.cpp and for recorded transcripts."),
    _fact("a session|the session contract",
          "A session is the KV cache of one conversation on one model.",
          "It can evaluate tree nodes, commit a path, drop branches and rewind."),
    _fact("the colors|the colored runs|a run|the colours",
          "Each colored run is a group of tokens that one forward pass produced together.",
          "Long runs mean that many draft tokens were accepted. With greedy decoding every run has one token."),
    _fact("the method switch|switching methods|changing the method",
          "You can switch the decoding method with a key while an answer is being written.",
          "The KV cache and all tables stay, so the next step simply uses the new method."),
    _fact("a race|race mode|racing methods",
          "In a race several panes answer the same prompt with different methods.",
          "Each pane's clock counts only its own compute, so the comparison is fair on one device."),
    _fact("a lane|lanes|the lanes of the engine",
          "A lane is a target session with its drafters and its method.",
          "In a race each pane has its own lane, and the lanes take turns on the device."),
    _fact("prefix reuse|reusing the prefix",
          "Prefix reuse keeps the KV cache of the earlier turns, so that a new turn prefills only what is new.",
          "It works because the chat template never changes earlier text."),
    _fact("the decoding loop|the loop",
          "The loop repeats six parts: draft, evaluate, choose, walk, commit and learn.",
          "Every method uses the same loop and differs only in the tree it drafts."),
    _fact("specchat doctor|the doctor command",
          "The doctor command lists versions, devices and paths and says what is missing.",
          "For each problem it names the command that mends it. Type specchat doctor to run it."),
    _fact("specchat run|the run command",
          "The run command writes one answer without opening the chat.",
          "Type specchat run and a prompt; with --json it prints the figures as one object."),
]

FACTS: list[Fact] = METHODS + CONCEPTS + PARTS
# fmt: on
