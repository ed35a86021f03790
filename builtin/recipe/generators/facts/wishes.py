"""Wishes of people in specchat, and the facts that name the key or command for them.

Keys are the first names of facts; patterns (`draw.parsed`) are clauses that begin with a verb, for `wording.HOW`.
"""

WISHES: dict[str, str] = {
    "the method switch": """
        (change|switch|select|choose|pick|swap) (the|another|a different|a new) (decoding |)method|(change|switch|go|move)
        (over |)to ({method}|{method} instead)|(use|try|turn on|activate|enable|get) {method}( instead| now|)|turn off
        (speculation|drafting|{method})|(change|switch) (methods|how you decode)|(use|try) (another|a faster) method|decode
        with {method}|select {method}""",
    "--model": """
        (load|use|open|try|run|get|choose|take) (another|a different|a bigger|a larger|a better|my own|a new|my|a smarter)
        (model|language model)|
        (load|use|open|run|try) (a gguf file|my gguf file|my own (file|weights|gguf)|llama|qwen|mistral|gemma|an ollama
        model|my fine-tuned model|a model (from (the hub|hugging face)|on my disk))|
        (change|swap|switch|replace) (the|this) model|start (specchat|you|it) with (another|my own|a bigger) model|
        plug in my own model""",
    "ctrl+l": """
        (start|begin|open|make|have|get) (a new|another|a fresh|an empty) (chat|conversation|session)|
        (wipe|clear|empty|reset|delete|erase|throw away|clean|remove) (the|this|my|our|everything in the)
        (chat|conversation|history|screen|messages|talk)|(start|begin) (over|again|afresh|from scratch|all over|from zero)|
        forget (everything|all this|what I said|this chat|our chat)|
        (reset|restart|clear|wipe) (everything|it all|you|all|specchat|)|go back to (zero|the beginning|an empty screen)|
        get rid of this chat""",
    "ctrl+q": """
        (quit|exit|leave|close|end|shut down|terminate|get out of) (specchat|this|the program|this program|the
        app|here|the window|)|(log|get|go) out|(go|get) back to (the shell|my terminal|the prompt)|
        turn (you|this|specchat) off|kill this program""",
    "esc": """
        (stop|cancel|interrupt|abort|halt|break off|cut off|end) (you|an answer|the answer|this answer|the output|your
        answer|the text|you in the middle)|make you (stop|shut up|be quiet)|stop (writing|talking|generating)""",
    "ctrl+y": """
        copy (the|your|an|this|that) (last |) (answer|output|reply|response)( to the clipboard|)|
        (get|take|put) (your|the) answer (out of here|into another program|onto the clipboard|into my editor)|
        copy (text|what you wrote)( from here| out of here|)""",
    "F3": """
        (change|switch|choose|pick|set|get) (the|another|a different|a new) (theme|color theme|look|background|color
        scheme)|make (it|this) (dark|light|prettier|darker|brighter)|
        (get|use|have|switch to) (a dark|a light|another) (theme|mode)""",
    "F5": """
        (start|run|begin|have|see|make|do|hold|set up) (a|the|another) race|
        (race|compare) (methods|two methods|several methods|models)( side by side|)|
        see which method is (faster|the fastest)|let methods run against each other""",
    "F1": """
        (see|list|find|show|get|look up) (all|the|all the) (keys|shortcuts|commands|key bindings|hotkeys)|
        (open|see|get|find) (the|some) help|learn the (keys|shortcuts)""",
    "F4": """
        (see|show|get|find|open) (the|all|more|all the) (figures|numbers|statistics|stats|details|measurements)|
        (see|show|look at) the (token |)tree|(open|close|hide|show) the (side |)panel""",
    "F7": """
        (see|find out|inspect|understand|check) (why a run ended|what was drafted|what was rejected|why a (draft|guess)
        was (rejected|wrong))|(inspect|look into|look inside|examine) (a|the|one) run""",
    "F6": """
        (turn off|switch off|change|remove|disable|hide|get rid of) (the|these|all|all the) (colors|colours|coloring)|
        (color|colour) (the runs|the text|it) (differently|another way)|see (the text|you) without colors""",
    "F8": """
        (pause|hold|freeze|halt) (an|the|your|this) answer|
        (go|watch|see it|decode) (step by step|one step at a time|slowly)|take (one step|single steps)|
        (continue|resume) a paused answer|slow you down""",
    "the set command": """
        (change|set|raise|lower|adjust|turn up|turn down|increase|reduce) (the|my)
        (temperature|top-p|top-k|seed|sampling|min-p)|
        make (you|the answers|it|your text) (more|less) (random|creative|predictable|wild)|(set|fix|use) a seed|
        change a setting""",
    "max_tokens": """
        (get|make|have|allow) (longer|shorter) answers|
        (limit|change|set|raise|increase) (the length of (an answer|your answers)|how long (an answer|your answer)
        (is|gets|may be)|the number of tokens in an answer)""",
    "alt+r": """
        (regenerate|retry|redo) (an|the|that|this|your) (last |) answer|
        (get|have|see) (another|a new|a second|a different) answer|(have|let) you answer again|
        try (it|that|the same) again with another method""",
    "alt+w": """
        (edit|change|correct|fix|rewrite|mend) (my|the) (last |first |) (message|question|prompt|typo)|
        (edit|change) what I (wrote|typed|said)""",
    "alt+u": """
        (undo|take back|remove|delete|withdraw) (my|the) (last |) (message|question|turn)|
        (undo|take back) what I (sent|said)|go (back|) one (turn|message) (back|)""",
    "alt+s": """
        (export|save|store|download|share|print|keep) (the|this|a|my|our) (chat|conversation|talk|session)( to a file| as
        a file| as html| as markdown| as json| as a picture|)|(write|put) (the|this) chat (to|into) a file|
        make a (screenshot|web page|picture) of (the|this) chat""",
    "specchat chats": """
        (find|open|list|see|search|delete|rename|get back) (my|a|the) (old|earlier|previous|other|saved)
        (chats|chat|conversation|conversations)|(search|look) (in|through) my chats|
        (see|list|find) (all|) my (chats|conversations)|(delete|rename) a chat""",
    "alt+m": """
        (see|list|find|show|browse) (the|my|all|all the) models( on this machine| that I have|)|
        (download|fetch|get) (a|another|more) (model|models)( from the hub|)|
        (see|find out) (which|what) models (I have|fit)""",
    "--draft-model": """
        (use|choose|set|load|add|name|specify|take) (a|another|my own|a different) draft model|
        (give|add) (you|the model) a (draft|smaller|second) model|draft with (another|a smaller|my own) model""",
    "the system prompt": """
        (set|change|write|add|edit) (a|the|my own) (system prompt|system message)|(give you|set) a (role|personality)|
        tell you how to behave""",
    "presets": """
        (save|keep|store) (my|these|the) (settings|method and settings) under a name|
        (make|create|use|save|load) (a|my own|another) preset""",
    "specchat run": """
        (use|run|call|ask) (you|specchat|this|it) (from|in|inside) (a script|the shell|bash|the command line|a pipe)|
        (get|write|print) (one|a single|just one) answer (without|outside) (the chat|opening the chat)|
        pipe (text|a file) (into|through) (you|specchat)""",
    "--json": """
        (get|print|have|write) (the answer|an answer|the figures|output|it) as json( in a script|)|
        (read|parse) the figures in a script""",
    "specchat bench": """
        (benchmark|measure|test|time) (all|all the|the|) (decoding |)methods( on my machine| here|)|run a benchmark|
        (see|measure) how fast the methods are( here| on my computer|)""",
    "specchat tune": """
        (find|get|work out) the (best|fastest) (method|settings|method and settings) for (my|a|this)
        (model|machine|computer|laptop)|tune (a method|specchat|the settings)""",
    "specchat doctor": """
        (find out|see|check) (what is (wrong|missing|broken)|why (it|specchat) does not (work|start))|
        check (my|the) (installation|setup|versions)|(fix|repair) (my|the) installation""",
    "specchat locate": """
        (find|see|open) (the|my) (log|log file|cache|data folder|config folder)|
        (find out|see) where (settings|chats|logs|models|my chats|the cache) (are|is) (stored|kept|saved)""",
    "the tour": """
        (take|see|start|get|watch|have|repeat) (the|a|the guided) (tour|introduction|demo|demonstration)|
        (have|let) somebody show me around|see what this (can do|is about) in a minute""",
    "attached files": """
        (attach|add|send you|give you|upload|include|hand you|show you) (a|my|this|some) (file|document|text
        file|notes|report|pdf)|(ask|ask you) (about|something about) (a|my) (file|document|report)|
        (let|make|have) you read (a|my) (file|document|notes)""",
    "the settings file": """
        (change|save|set|edit|keep) (the|my) (defaults|default settings|configuration|keys)( for good| permanently|)|
        (remap|change|rebind) (a key|keys|the keys)|edit the (settings|config) file""",
    "ctrl+f": """
        (search|find|see|get back|look up) (my|a|something in my) (earlier|old|previous|past)
        (messages|message|prompts|questions)|(send|use) an old message again""",
    "--continue": """
        (continue|go on with|resume|reopen|pick up) (the|my|a) (last|previous|yesterday's) (chat|conversation|session)|
        (go on|continue) where I (stopped|left|was)|come back to this chat (later|tomorrow)""",
    "ctrl+o": """
        (use|press|type) (alt keys|F keys|function keys|the alt key) (on a mac|in tmux|over ssh|on my laptop)|
        press F5 on a (mac|laptop)""",
    "specchat keys": """
        (see|test|check|find out) (what|which keys) my terminal sends|(check|test) my (keys|keyboard)|
        find out why a key does not work""",
    "specchat methods": """
        (list|see|print) (all|all the|the) methods in the (shell|terminal)|(read about|see) when each method pays""",
    "NO_COLOR": """
        (run|start|use) (specchat|it|this) (without|with no) colors?( in the shell| at all|)|use a terminal without colors""",
    "the loop guard": """
        (stop|end|prevent) (loops|endless answers|endless repeats)|
        (keep|stop) you from (looping|repeating yourself forever)""",
}
