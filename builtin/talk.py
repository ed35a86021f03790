"""Small talk, questions on decoding methods, and the honest sentence for everything else."""

from . import words
from .draw import Draw, Message, exchange
from .facts import CONCEPTS, FACTS, METHODS, PARTS, Fact

HONEST = (
    "Sorry, I am only a small demonstration model and cannot help with that, but I can explain decoding methods, "
    "copy and edit text, answer questions about a passage and tell short stories."
)
"""The one answer to everything outside the corpus."""

_ABOUT = (
    "I am the small language model that ships with specchat. I have about seven million parameters and run on any laptop. "
    "I can explain decoding methods, copy and edit text, answer questions about a passage and tell short stories."
)
_ABILITIES = (
    "I can do a few things:\n- explain decoding methods and the parts of specchat\n- repeat and edit text that you give me\n"
    "- sort, count and reformat lists\n- extract names, dates and numbers\n- answer questions about a short passage\n"
    "- tell short stories"
)

_SMALL_TALK: list[tuple[str, str]] = [
    ("Who are you?|What are you?|Tell me about yourself.|Introduce yourself.|What is your name?|Are you a chatbot?|"
     "What kind of model are you?|Which model is this?|What model are you?|who are you|What's your name?", _ABOUT),
    ("What can you do?|What are you good at?|How can you help me?|What can I ask you?|Help|help|What do you know?|"
     "What should I ask?|What are your skills?|Can you help me?|what can you do|Show me what you can do.", _ABILITIES),
    ("Hello|Hello!|Hi|Hi!|Hey|Hi there|Good morning|Good evening|Hello there!|hey there|hello|hi|Greetings|Good day|Howdy",
     "Hello! I am the small model that ships with specchat. Ask me about decoding methods, or give me a text to copy or edit."),
    ("How are you?|How are you doing?|How do you do?|How is it going?|Are you okay?|how are you|How are you today?",
     "I am fine, thank you. I am ready to decode a few tokens for you."),
    ("Thanks|Thank you|Thank you!|Thanks a lot|Thanks!|Great, thanks|Many thanks|thanks|thank you very much|Nice, thank you",
     "You are welcome!"),
    ("Bye|Goodbye|Bye!|See you|See you later|Good night|bye|Goodbye!|See you tomorrow",
     "Goodbye! Come back when you want to see how tokens are made."),
    ("Are you human?|Are you a person?|Are you alive?|Do you have feelings?|Are you conscious?|Are you real?|Do you sleep?",
     "No, I am a small language model. I predict one token after another, and specchat shows how."),
    ("Who made you?|Who built you?|Who trained you?|Where do you come from?|How were you trained?|How were you made?|"
     "What were you trained on?|Which data were you trained on?",
     "I was trained by the recipe in specchat's builtin folder, only on text that its own generators write."),
    ("How big are you?|How many parameters do you have?|How large are you?|What is your size?|Are you a large model?",
     "I am small: about seven million parameters in eight layers, with a vocabulary of 2,048 tokens."),
    ("Which languages do you speak?|Do you speak German?|Do you speak French?|Can you speak Spanish?|"
     "And in French style?|Can you translate?|What languages do you know?|Say that in German.|Now in French.",
     "I only know English."),
    ("Can you make mistakes?|Are you always right?|Can I trust you?|Do you make errors?|Are you reliable?|Can you be wrong?",
     "I am a small demonstration model and I do make mistakes, so please check what I say."),
    ("Do you need the internet?|Do you run offline?|Are you online?|Where do you run?|Do you run on my computer?|"
     "Do you send my data anywhere?|Is my chat private?",
     "I run on your own computer and need no internet. Nothing that you type leaves it."),
    ("Okay|OK|I see|Good|Great|Nice|Cool|Interesting|Well done|ok|Perfect|Wow|Yes|No|Fine",
     "Good. What would you like to try next?"),
    ("What is your license?|Which license do you have?|May I use you in my product?|Are you open source?|Are you free?",
     "I come with specchat under the Apache 2.0 license, so you may use me freely."),
    ("Tell me a joke.|Do you know a joke?|Make me laugh.|Tell me something funny.|Tell a joke",
     "Why did the draft model cross the road? To be verified on the other side."),
    ("Which decoding methods are there?|What methods are there?|List the decoding methods.|Which methods do you know?|"
     "What decoding methods does specchat have?|Name all decoding methods.|list methods",
     "The decoding methods are:\n- greedy and sample, the plain methods\n- recompute, without a KV cache\n- beam search\n"
     "- prompt lookup\n- n-gram decoding\n- token recycling\n- Jacobi and lookahead decoding\n- draft model\n"
     "- early exit\n- tree and fusion\n- auto, which chooses for you"),
    ("Which method is the fastest?|What is the best method?|Which method should I use?|What is the fastest decoding method?|"
     "Which decoding method is best?",
     "It depends on the text. Prompt lookup is the fastest when the answer repeats the prompt, a draft model helps with "
     "most text, and auto chooses for you while the answer is being written."),
]  # fmt: skip

_OUTSIDE = """
What is the capital of {city}?|Who won the football match in {city}?|What is the weather in {city}?|How do I cook {food}?|
Write a poem about {thing}.|Who is the president of {city}?|What happened in {year}?|Translate {thing} into Latin.|
Write a program that plays chess.|How do I fix my {thing}?|Solve this equation: x^2 + {n}x = {m}.|What is the meaning of life?|
Which film should I watch?|Give me a recipe with {food}.|How far is it from {city} to {city2}?|How old is the universe?|
What is the stock price today?|Who wrote {thing} and Peace?|Plan a trip to {city}.|How do I learn the guitar?|
What is a {animal}?|Why is the sky blue?|Who was {name}?|What time is it?|What day is today?|Book a flight to {city}.|
Recommend a restaurant in {city}.|Write an essay about {thing}.|Explain quantum physics.|Do you like {food}?|
How do plants grow?|What does a {animal} eat?|Is {food} healthy?|How tall is the tallest mountain?|When was {city} founded?|
What is {n} to the power of {m}?|Should I buy a {thing}?|How do I lose weight?|Write a song about a {animal}.|
Who invented the {thing}?|How many people live in {city}?|What is love?|Tell me the news.|Give me advice.|
How does a {thing} work?|Where can I buy a {thing}?|What is the best {thing}?|Can you draw a {animal}?|Sing a song.|
Explain the theory of relativity.|What is the square root of {n}?|Write a Rust program.|Fix this bug in my {thing}.|
What is my name?|Where am I?|How do I get to {city}?|Who is {name}?|Is there life on Mars?|Why do people {verb}?|
Write a letter to {name}.|What do you think about {city}?|Which {thing} is the cheapest?|Play a game with me.|
What is the population of {city}?|Why does my {thing} make a noise?|How long does a {animal} live?|Open the {thing}.
""".replace("\n", "").split("|")


def small_talk(d: Draw) -> list[Message]:
    """A greeting or a question about the model itself."""
    questions, answer = d.pick(_SMALL_TALK)
    return exchange(d.pick(questions.split("|")), answer)


def outside(d: Draw) -> list[Message]:
    """A question that the model cannot answer."""
    question = d.pick(_OUTSIDE).format(
        city=d.city(), city2=d.city(), food=d.pick(words.FOODS), thing=d.noun(), animal=d.pick(words.ANIMALS),
        name=d.full_name(), year=d.number(1400, 2020), n=d.number(2, 60), m=d.number(2, 60),
        verb=d.pick(["dream", "laugh", "sing", "lie", "run", "travel"]),
    )  # fmt: skip
    lead = d.pick(["", "", "", "Please tell me: ", "I have a question. ", "Hey, "])
    return exchange(lead + question, HONEST)


_WHAT = [
    "What is {0}?", "What is {0}?", "what is {0}", "Explain {0}.", "Please explain {0}.", "Tell me about {0}.",
    "What does {0} mean?", "Can you explain {0}?", "What do you know about {0}?", "Describe {0}.", "How does {0} work?",
    "I do not understand {0}.", "Explain {0} to me.", "What's {0}?", "{0}?", "Define {0}.", "Could you tell me what {0} is?",
    "how does {0} work?", "What is meant by {0}?", "I want to learn about {0}.", "Give me an explanation of {0}.",
]  # fmt: skip

_BRIEF = [
    "In one sentence, what is {0}?", "Explain {0} in one sentence.", "What is {0}, in short?", "Briefly, what is {0}?",
    "Explain {0} briefly.", "Give me a short definition of {0}.", "Short answer: what is {0}?",
]  # fmt: skip

_COMPARE = [
    "What is the difference between {0} and {1}?", "Compare {0} and {1}.", "{0} or {1}?", "How do {0} and {1} differ?",
    "{0} versus {1}", "Explain {0} and {1}.", "What are {0} and {1}?",
]  # fmt: skip

_OVERVIEW = [
    "Explain {0}, {1} and {2}.", "Tell me about {0}, {1} and {2}.", "What are {0}, {1} and {2}?",
    "Give me a list that explains {0}, {1} and {2}.",
]  # fmt: skip


def _answer(fact: Fact) -> str:
    return f"{fact.short} {fact.more}"


def _question(d: Draw, form: str, *facts: Fact) -> str:
    text = form.format(*(d.pick(fact.names) for fact in facts))
    return text[0].upper() + text[1:] if form[0] == "{" and d.chance(0.7) else text


def fact(d: Draw) -> list[Message]:
    """One topic, at length or in a sentence, perhaps with a follow-up."""
    topic = d.pick(d.pick([METHODS, METHODS, CONCEPTS, CONCEPTS, PARTS]))
    if d.chance(0.25):
        messages = exchange(_question(d, d.pick(_BRIEF), topic), topic.short)
        if d.chance(0.4):
            messages += exchange(d.pick(["Tell me more.", "Go on.", "More, please.", "And what else?"]), topic.more)
        return messages
    messages = exchange(_question(d, d.pick(_WHAT), topic), _answer(topic))
    if d.chance(0.15):
        messages += exchange(d.pick(["Shorter, please.", "Shorter.", "In one sentence.", "Make it shorter."]), topic.short)
    return messages


def comparison(d: Draw) -> list[Message]:
    """Two or three topics in one answer of 100 tokens and more."""
    pool = d.pick([METHODS, FACTS])
    names = d.some([topic.names[0] for topic in pool], 3)
    topics = [next(topic for topic in pool if topic.names[0] == name) for name in names]
    if d.chance(0.6):
        return exchange(_question(d, d.pick(_COMPARE), *topics[:2]), "\n\n".join(_answer(topic) for topic in topics[:2]))
    return exchange(_question(d, d.pick(_OVERVIEW), *topics), "\n\n".join(_answer(topic) for topic in topics))
