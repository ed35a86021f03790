"""Questions about a fact that do not say its name as a whole: why, what if, and how.

Keys are the first names of facts; patterns are those of `draw.parsed`, with requests and questions as in `wording.framed`.
"""

ASKED: dict[str, str] = {
    "greedy decoding": """
        what (happens|do I get) (if|when) the model always takes the (best|most probable|likeliest) token?|which method gives
        the same (text|answer) every time?|why do I get the same answer (again|every time)?|what is plain decoding?""",
    "sampling": """
        why (is|do I get) (the answer|a different answer) (different |)(every|each) time?|
        how is the next token (drawn|picked) at random?|what decides which tokens may be drawn?|
        where does the randomness come from?""",
    "recompute": """
        what (happens|is it like) without (a|the) KV cache?|which method (is the slowest|shows what the cache saves)?|
        how slow is decoding without a cache?|why (is there|would anyone use) a method without a cache?""",
    "beam search": """
        which method keeps several (answers|texts) at once?|why is beam search's text (different|not greedy's)?|
        does beam search change the (text|answer)?""",
    "prompt lookup": """
        how can (you|it) draft without a (draft|second) model?|which method (searches|looks in) the (prompt|text so far)?|
        which method is good (for|at) (copying|summaries|editing)?|what does it cost to search the prompt?""",
    "n-gram decoding": """
        which method (learns while|builds a table as) the answer is written?|what is the table of the ngram method made of?""",
    "token recycling": """
        what (happens to|is done with) the candidates (left over|of earlier passes)?|which method reuses old candidates?""",
    "Jacobi decoding": """
        how can a block of tokens be guessed in parallel?|when does the jacobi block stop changing?|how many steps can a
        jacobi block take?""",
    "lookahead decoding": """
        what is the window in lookahead?|what do W, N and G mean?|why does lookahead evaluate so many nodes?""",
    "draft model decoding": """
        (what happens|how does it work) when a small model (writes|drafts) first?|how do two models work together?|
        why should (both|two) models share (one|a) tokenizer?|can a small model help a (big|large) one?""",
    "self-speculative decoding": """
        can a model draft for itself?|how can the first layers draft?|how do I speculate without a second model?|what if I
        have no draft model?""",
    "tree speculation": """
        why draft a tree (instead of a chain|and not a chain)?|how can several continuations be checked at once?""",
    "fusion": """
        can (all|several) drafters be (combined|joined)?|which method uses all the evidence?|
        what limits the cost of fusion?""",
    "PARD": "how can a draft model guess several tokens in one pass?|what are mask tokens( for|)?",
    "the auto method": """
        can specchat choose the method (for me|itself|alone)?|which method turns speculation off?|
        what if I do not want to choose a method?|who decides which method is used?""",
    "speculative decoding": """
        how can one pass (give|write|yield) (several|many) tokens?|why is (it|drafting|guessing) faster?|
        how does guessing ahead save time?|why can a (guess|draft) make the model faster?|
        what is the trick behind (this|specchat|the speed)?|
        how (does|can) the model (go|get|be) faster without changing (the|its) text?|
        why are several tokens written at once?""",
    "rejection sampling": """
        with (which|what) probability is a draft token accepted?|how is the distribution kept?|what are p and q?""",
    "typical acceptance": """
        which (rule|acceptance) is lossy?|can the text (differ|change) with soft matching?|
        when is a likely enough token kept?""",
    "exact matching": """
        when is a draft token accepted?|which drafts are (kept|accepted)?|how is it made sure that the text is the same?""",
    "temperature": """
        what (happens|changes) (if|when) I (raise|lower|change|increase|turn up|turn down) the temperature?|
        what does (a high|a low) temperature (do|mean)?|what happens (at|with) temperature (zero|0|one)?|
        why (are|do) the answers (get|become) more random?""",
    "top-k": """
        what (happens|changes) (if|when) I (raise|lower|set|change) (top-k|k in top-k)?|what does top-k 1 do?|
        what is top_k?""",
    "top-p": """
        what (happens|changes) (if|when) I (raise|lower|set|change) top-p?|how (many|big a set of) tokens does top-p keep?|
        what is top_p?""",
    "min-p": """
        what (happens|changes) (if|when) I (raise|lower|set|change) min-p?|which tokens does min-p drop?|what is min_p?""",
    "a repetition penalty": """
        how can I (keep|stop) (the model|you) from repeating (itself|yourself)?|what helps against loops?|
        why does (the model|it) repeat itself?""",
    "a seed": """
        how do I get the same (random |)(text|answer) (again|twice)?|
        what happens (if|when) I (keep|use|set) the same seed?|can a random answer be repeated?""",
    "Gumbel noise": "how can sampling be (turned into|an) argmax?|why does a draft not change (sampled|random) text?",
    "the KV cache": """
        what (does|is stored in) the cache( store|)?|why is the cache (needed|so large)?|
        why does memory grow (with|during) the chat?|what keeps old tokens from being computed again?|
        what happens (if|when) the cache grows?""",
    "prefill": """
        what happens before the first token?|why (do I|must I) wait (for|before) the first token?|
        what happens to my prompt first?|why does a long prompt take (long|longer)?""",
    "decode": "what (comes|happens) after (the|) prefill?|why is (the second phase|writing the answer) limited by memory?",
    "the acceptance rate": """
        how many (guesses|draft tokens|drafts) (are|were) (right|accepted)?|what share of drafts is accepted?|
        what does a (high|low) acceptance( rate|) mean?""",
    "tokens per step": """
        how many tokens (does|come from|are in) (a|one|each) (pass|step)( give| yield|)?|
        what (is|does) the number of tokens per (pass|step)( mean|)?""",
    "nodes per token": "what does the speed cost (in computation|)?|how many nodes are evaluated (for|per) (each|a) token?",
    "the draft length": """
        how (many|long) (tokens|) (should|can) (a draft|I draft)( be|)?|
        what happens (if|when) (the draft is|drafts are) too (long|short)?|what does K (mean|stand for)?|
        why not draft a hundred tokens?""",
    "a draft model": """
        which model (makes|proposes) the guesses?|why do (I|you|we) need (a|the) small(er|) model( at all| too|)?|
        what is builtin-draft?|which model (can|may) draft?""",
    "the target model": "which model has the last word?|whose answer do I (get|see)?|who checks the draft?",
    "a drafter": """
        (can|does) a bad (drafter|draft model) (change|spoil) the (text|answer)?|
        what (happens with|if I use) a bad drafter?|who makes the guesses?|what proposes the tokens?""",
    "a token tree": """
        what is the tree( in the panel| in F4|)?|what do the branches (mean|stand for)?|
        how can several guesses share a prefix?""",
    "tree attention": """
        how does one pass (evaluate|check) many branches?|why do(n't|) the branches (not |)mix?|what may a node see?""",
    "verification": """
        what happens (if|when) (a|the) (guess|draft|draft token) is (wrong|rejected|not accepted)?|
        what happens to (wrong|rejected|bad) (guesses|drafts|tokens)?|who (checks|verifies) the (guesses|drafts)?|
        how are (the|) drafts (checked|verified)?|what if all guesses are wrong?|
        does a wrong (guess|draft) (hurt|change the text|spoil the answer)?|
        do (you|I) lose anything (if|when) a draft is wrong?""",
    "an n-gram": "how can a table predict (how a text goes on|text)?|which methods use n-grams?",
    "a token": """
        is a (token|word) (a word|the same as a token)?|how (long|big) is (a|one) token?|
        why (tokens|do you count tokens) and not words?|are tokens words?""",
    "a tokenizer": """
        how is text split( up|) (into tokens|)?|what turns (text|words) into (numbers|tokens)?|
        which tokenizer do you (use|have)?""",
    "byte-pair encoding": """
        how (is|was) (your|the) vocabulary (built|made)?|can (you|the tokenizer) write any (text|language|sign)?""",
    "a logit": "what are the raw scores?|what comes out of the model( before the softmax|)?",
    "softmax": "how do (scores|logits) become probabilities?|what turns logits into probabilities?",
    "argmax": "(what|who) wins (if there is|in) a tie?|how is the largest value (found|chosen)?",
    "a forward pass": """
        what happens in (a|one) pass?|what does one pass cost?|why do a few extra tokens cost (little|nothing)?|
        what is a pass?""",
    "EOS": """
        how (do|does) (you|the model) know when to stop?|when (is|does) (an|the) answer (end|complete|finished)?|
        why did (you|it) stop?""",
    "the context": """
        how (much|long a text) can (you|the model) (read|see|take)?|how long is your (context|memory)?|
        what happens when the context is full?|what can the model see?""",
    "a chat template": "how (are|is) (my messages|a chat) turned into (one |)text?|how does the model know who is speaking?",
    "an embedding": "how is a token (stored|shown) (inside|in) the model?|what is the vector of a token?",
    "attention": "how do tokens (see|read) (each other|earlier tokens)?|what is copying done by?|how do you copy( text|)?",
    "a transformer": """
        what (are you|are language models) (built|made) (of|from)?|are you a transformer?|what is your architecture?""",
    "RoPE": "how does (attention|the model) know (the position|where a token is)?|how are positions (encoded|stored)?",
    "quantization": """
        how can a model be made smaller?|what (happens|do I lose) (if|when) weights (are stored with|have) fewer bits?|
        why use 4-bit weights?|what is Q8_0?|what is a 4-bit model?""",
    "GGUF": "what kind of file does llama.cpp (read|use|need)?|what is in a .gguf file?",
    "safetensors": "(which|what) (file|format) is safe to load?|why (not|no) pickle files?|does specchat load pickle files?",
    "llama.cpp": "(what|which) (runs|reads) GGUF files?|can specchat use llama.cpp?",
    "transformers": """
        which python library (runs|loads) (the model|you)?|(do you|does specchat) use (pytorch|torch|hugging face)?""",
    "latency": "how long do I wait (until|before) the answer (begins|starts)?|what makes the first token (late|slow)?",
    "throughput": "how (quickly|fast) is the answer written?|what is tok/s?|how do I get more tokens per second?",
    "memory bandwidth": """
        why is (decoding|writing|generation|one token at a time) (so |)slow?|why does (each|every|a) token take so long?|
        what (slows|holds) decoding (down|up)?|why is it limited by memory?|why (can|does) a (gpu|computer) wait?""",
    "the speedup formula": """
        how much faster (can|does) (it|speculation) (get|be|become)?|how (can I|do I) compute the speedup?|
        what does the speedup depend on?""",
    "identical": """
        what does (the label|) identical (mean|promise)?|what (labels|guarantees) are there?|
        is the text (really|exactly) the same?|what does ≡ mean?""",
    "a language model": """
        how do(es|) (you|chatbots|a model|an llm) (write|work|make) (text|answers|it)?|
        how does a model write (whole |)answers?|what does a model (predict|do)?|what do you predict?""",
    "a parameter": "what does training (change|adjust)?|what are (the|your) (weights|numbers)?",
    "training": """
        how does a model learn?|how do(es|) (you|a model) (learn|get its weights)?|what happens (in|during) training?""",
    "a vocabulary": "how many (words|tokens) are in your vocabulary?|which tokens does a model know?",
    "a prompt": "what happens to (my|the) (text|message|prompt)?|what is my message called?",
    "perplexity": "how (is|do you measure) surprise( measured|)?|how do I measure how surprised a model is?",
    "entropy": "how (unsure|sure) is the model( about the next token|)?|where are drafts easily accepted?",
    "batching": "can (several|many) (texts|chats|sequences) (run|be computed) at once?|why are batches efficient?",
    "a GPU": """
        do I need a (gpu|graphics card)( for this| to run you|)?|can (you|specchat) use my (gpu|graphics card)?|
        (does|will) it (run|work) (without|on) a (gpu|graphics card)?|what if I have no (gpu|graphics card)?""",
    "a hidden state": "what is between two layers?|what does early exit keep?",
    "a causal mask": "why can('t|not) a token see what comes later?|what hides the tokens after it?",
    "Medusa": "which method uses extra heads?",
    "EAGLE": "which method predicts the next hidden state?",
    "distillation": "how can a small model imitate a (large|larger|bigger) one?|how do I get a better draft model?",
    "a hallucination": """
        why do(es|) (you|models|it|chatbots) (make things up|invent things|say wrong things|lie)?|
        can I believe what you say?""",
    "when speculation hurts": """
        when (does|is) (speculation|drafting|guessing) (hurt|not worth it|slower|useless|a bad idea)?|
        (can|could) (speculation|drafting) make (it|things) slower?|
        what (happens|if) (few|no) (drafts|guesses|draft tokens) are accepted?|
        why is (it|speculation) slower than plain( decoding|)?|is speculation always faster?|
        does (it|speculation) always help?""",
    "streaming": "why do (several|many) tokens appear at once?|why does the text (come|appear) (in jumps|bit by bit)?",
    "a stop string": "how can I end an answer at a (word|string)?|can (an answer|you) stop at a word?",
    "open weights": """
        (where|does) (does|) my (text|data) (go|stay)( with a local model|)?|
        why (run|use) a (local|) model (on my own computer|at home)?""",
    "specchat": """
        what (is this|am I looking at|does this program do|can specchat do|program is this)?|
        (tell me about|explain) (this program|this app|this tool|this terminal thing)|
        what (is|does) (this app|this tool|the program) (for|do)?""",
    "the engine": """
        what happens (if|when) (the engine|a model|it) crashes?|do I lose the chat (in|after) a crash?|
        why are there two processes?""",
    "the colors": """
        (what|why) (do|are|does) (the|your|some) (words|colors|tokens|letters) (mean|colored|have colors|stand for)?|
        what does (the color|a color|orange|a warm color|red) mean?|
        why is (the|your|this) (text|word|answer) (colored|orange|so colorful|in color)?|
        what (does|about) (text|words) without (a |)color( mean|)?|
        why (is|are) (some|parts) (text|words|of it) not colored?|what is (the|this) (color|coloring|colour) (for|about)?""",
    "the method switch": """
        what happens (if|when) I (switch|change) (the |)methods?( in the middle| halfway| in mid-answer|)?|
        does (anything|the cache) (get lost|go away) when I switch?|
        can I (switch|change) (methods|the method) (while you write|in the middle|during an answer)?""",
    "a race": "is (the|a) race fair?|what happens in a race?|how is the winner (found|decided)?|who wins a race?",
    "prefix reuse": """
        is the whole chat read again (each|every) turn?|why (is|are) (the second|later) (answer|answers) quicker?""",
    "the decoding loop": "what (happens|does it do) (in|at) (each|every|a) step?|what are the parts of a step?",
    "the line below an answer": """
        what (is|does) the (line|sentence|text) (below|under) (the|an|your) answer( mean| say|)?|
        how fast (are you|was that|was the answer)?|what did the method gain?""",
}
