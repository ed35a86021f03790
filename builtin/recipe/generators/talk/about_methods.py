"""Questions on the methods as a whole, on speed and on the text staying the same, and the one answer to each."""

from .intents import Intent

ABOUT_METHODS: list[Intent] = [
    Intent(
        "The decoding methods are:\n- greedy and sample, the plain methods\n- recompute, without a KV cache\n- beam search\n- "
        "prompt lookup\n- n-gram decoding\n- token recycling\n- Jacobi and lookahead decoding\n- draft model and PARD\n"
        "- early exit\n- tree and fusion\n- auto, which chooses for you",
        """
        (which|what) (decoding |)(methods|modes|strategies|algorithms) (are there|do you have|do you know|does
        specchat (have|know|offer)|can I (use|choose|choose from|pick)|exist|are available|are in the menu)?|
        (list|show|name|give me|tell me) (all|all the|the|every|your) (decoding |) (methods|modes|strategies)|
        how many (decoding |)methods (are there|do you have|does specchat have)?|
        =(methods|all methods|list methods| a list of (all |the |)methods)|
        what (can I|do I) choose from( in the menu|)?|
        what (else|other methods) (is|are) there( besides greedy| beside lookup|)?|which ways of decoding are there?""",
    ),
    Intent(
        "It depends on the text. Prompt lookup is the fastest when the answer repeats the prompt, a draft model helps "
        "with most text, and auto chooses for you while the answer is being written.",
        """
        (which|what) (is the|method is the|one is the|decoding method is) (fastest|best|quickest)( method| one|
        mode|)?|
        (which|what) (method|one|mode) (should I (use|choose|take|pick|start with)|do you recommend|would you
        (use|take)|is (best|fastest|right for me)|wins|gives the most speed)?|what should I use?|
        how (do I|can I) (get the fastest answer|make you faster|speed you up|speed this up|get more speed)?|
        (is there|do you have) a (best|fastest) method?|=the (fastest|best|quickest) (method|one)|
        recommend (me |)a method|how can (you|this|it) be (faster|quicker)?|what makes you (fast|faster|fastest)?|
        what is best for (long texts|my text|stories|code|copying|most texts)?""",
    ),
    Intent(
        "No text changes. Methods that are labelled identical give exactly the same tokens; only the speed changes.",
        """
        (does|will|can) (the text|the answer|the output|the result|anything in the answer|what you write)
        (change|differ|get worse|be different)( with the method| if I (switch|change the method|use another method|use
        lookup|turn on speculation)| when I switch|)?|
        do (all|different|the) methods (give|write|produce) (the same|different|other|another)
        (answer|text|answers|output|words)?|
        (will|does|can) (another method| speculation|lookup|a faster method|a draft model|drafting|switching)
        (change|spoil|alter|affect|hurt) (the (answer|text|output|quality| result)|what you write|your words)?|
        is the (output|answer|text|quality|result) (the same|worse|still the same|just as good|identical)( with (every
        method|lookup|another method|speculation|a draft)|)?|is (speculative decoding|it|speculation|this) lossless?|
        (do|will) I (get|see) the same (text|answer|words) (with every method|each time|with lookup|when I switch)?|
        (do|will) I lose (quality|accuracy|anything)( with a faster method| by this|)?|
        is there (a|any) (catch|loss|difference in quality|quality loss|price to pay)?|
        does (speed|being fast|going faster) (cost| hurt|lower) (quality|the quality)?""",
    ),
    Intent(
        "Because the answer stands in the prompt: lookup drafts it from there, and one pass accepts many tokens.",
        """
        why (is|are) (decoding|copying|repeating|it|this|copies|you|lookup|prompt lookup) (so
        |)(fast|quick|faster|quicker|good)( when (you|it) (repeat| copy|repeats|copies)( text| something|)| at
        copying| on copies| here|)?|
        why does (prompt |)lookup (fly|help|work so well)( on copies| when you (copy|repeat)| here|)?|
        when is (prompt |)lookup (fast|good|best|useful)?|why (was|is) (that|this|the copy) so (fast|quick)?|
        why did you (write|copy|repeat) that so (fast|quickly)?|how can you (copy|repeat) (text |)so (fast|quickly)?|
        why so fast?""",
    ),
    Intent(
        "Because a new text stands nowhere in the prompt, so there is little to draft from.",
        """
        why (are|is) (stories|a story|poems|a poem|new text|free text|writing a story) (slow|slower|so slow|slower
        than (a copy|copies|copying))?|why do (drafts|guesses) fail in (stories|a story|new text)?|
        why (does|doesn't|can't) (prompt |)lookup (not |)help (here|with stories|in a story|with poems|with new text)?|
        why is (lookup|copying) no help (here|in stories)?|
        when (is|does) (prompt |)lookup (bad|no good|useless|not help)?""",
    ),
    Intent(
        "Try another decoding method: press ctrl+n, or choose auto in the menu that F2 opens.",
        """
        why (are|is) (you|this|it|the answer) (so |)slow( today| here|)?|
        can (you|it|this) (be|go|answer|write|get) (faster|quicker)?|=(this|it|that) is (so |too |very |)slow|
        why does (it|this|an answer) take so long?|
        =(faster|hurry up|speed up|be quick|quicker|hurry|you are (too |so |)slow|come on)|
        =I (do not|don't) want to wait|=(write|answer|go) faster|is there a faster way?|it takes (too|so) long, why?""",
    ),
]
