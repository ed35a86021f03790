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
    ("Who are you?|What are you?|Tell me about yourself.|Introduce yourself.|What is your name?|Are you a chatbot?|What "
     "kind of model are you?|Which model is this?|What model are you?|who are you|What's your name?||Who am I talking to?|"
     "Tell me who you are.", _ABOUT),
    ("What can you do?|What are you good at?|How can you help me?|What can I ask you?|Help|help|What do you know?|What "
     "should I ask?|What are your skills?|Can you help me?|what can you do|Show me what you can do.|How can you help?||What "
     "are you able to do?|Tell me what you can do.", _ABILITIES),
    ("Hello|Hello!|Hi|Hi!|Hey|Hi there|Good morning|Good evening|Hello there!|hey there|hello|hi|Greetings|Good day|hello "
     "there|Hello, how are things?||Howdy|Good afternoon",
     "Hello! I am the small model that ships with specchat. Ask me about decoding methods, or give me a text to copy or "
     "edit."),
    ("How are you?|How are you doing?|How do you do?|How is it going?|Are you okay?|how are you|How are you today?|How do "
     "you feel?||Are you feeling good?|Are you well?",
     "I am fine, thank you. I am ready to decode a few tokens for you."),
    ("Thanks|Thank you|Thank you!|Thanks a lot|Thanks!|Great, thanks|Many thanks|thanks|thank you very much|Nice, thank you|"
     "Thanks, that helped|Thank you, great||Thank you so much|Thanks for that",
     "You are welcome!"),
    ("Bye|Goodbye|Bye!|See you|See you later|Good night|bye|Goodbye!|See you tomorrow|Bye bye||So long|See you soon",
     "Goodbye! Come back when you want to see how tokens are made."),
    ("Are you human?|Are you a person?|Are you alive?|Do you have feelings?|Are you conscious?|Are you real?|Do you sleep?|"
     "Are you a human being?|Do you feel anything?||Do you have emotions?|Are you a real person?",
     "No, I am a small language model. I predict one token after another, and specchat shows how."),
    ("Who made you?|Who built you?|Who trained you?|Where do you come from?|How were you trained?|How were you made?|What "
     "were you trained on?|Which data were you trained on?|Who created you?|Who is your maker?||Who developed you?|How did "
     "you learn this?",
     "I was trained by the recipe in specchat's builtin folder, only on text that its own generators write."),
    ("How big are you?|How many parameters do you have?|How large are you?|What is your size?|Are you a large model?|Are "
     "you small?|How many layers do you have?||How many weights do you have?|Are you a big model?",
     "I am small: about seven million parameters in eight layers, with a vocabulary of 2,048 tokens."),
    ("Which languages do you speak?|Do you speak German?|Do you speak French?|Can you speak Spanish?|And in French style?|"
     "Can you translate?|What languages do you know?|Say that in German.|Now in French.|And in French?|In Spanish, please.|"
     "Translate that into Spanish.|Do you know Italian?||Can you speak German?|Now in Italian.",
     "I only know English."),
    ("Can you make mistakes?|Are you always right?|Can I trust you?|Do you make errors?|Are you reliable?|Can you be wrong?|"
     "Is that correct?|Are you sure?||Do you make mistakes?|Is that right?",
     "I am a small demonstration model and I do make mistakes, so please check what I say."),
    ("Do you need the internet?|Do you run offline?|Are you online?|Where do you run?|Do you run on my computer?|Do you "
     "send my data anywhere?|Is my chat private?|Are you local?|Do you work without internet?||Do you run locally?|Where "
     "does my text go?",
     "I run on your own computer and need no internet. Nothing that you type leaves it."),
    ("Okay|OK|I see|Good|Great|Nice|Cool|Interesting|Well done|ok|Perfect|Wow|Yes|No|Fine|okay|good|I understand|Got it||"
     "Excellent|Sounds good",
     "Good. What would you like to try next?"),
    ("What is your license?|Which license do you have?|May I use you in my product?|Are you open source?|Are you free?|Can "
     "I use you at work?||Under which license are you?|Is it allowed to use you?",
     "I come with specchat under the Apache 2.0 license, so you may use me freely."),
    ("Tell me a joke.|Do you know a joke?|Make me laugh.|Tell me something funny.|Tell a joke|tell me a joke|Another joke||"
     "Do you know any jokes?|Make a joke",
     "Why did the draft model cross the road? To be verified on the other side."),
    ("Which decoding methods are there?|What methods are there?|List the decoding methods.|Which methods do you know?|What "
     "decoding methods does specchat have?|Name all decoding methods.|list methods|What methods do you have?||Which methods "
     "do you have?|List all methods.",
     "The decoding methods are:\n- greedy and sample, the plain methods\n- recompute, without a KV cache\n- beam search\n- "
     "prompt lookup\n- n-gram decoding\n- token recycling\n- Jacobi and lookahead decoding\n- draft model\n- early exit\n- "
     "tree and fusion\n- auto, which chooses for you"),
    ("Which method is the fastest?|What is the best method?|Which method should I use?|What is the fastest decoding method?|"
     "Which decoding method is best?|Which is the quickest method?|What should I use?||Which method is best?|What is the "
     "quickest method?",
     "It depends on the text. Prompt lookup is the fastest when the answer repeats the prompt, a draft model helps with "
     "most text, and auto chooses for you while the answer is being written."),
    ("How do I change the method?|How can I switch methods?|How do I select another decoding method?|Can I change the "
     "method?|how do I switch the method|How do I try another method?||How can I change the decoding method?|How do I pick "
     "a method?",
     "Press ctrl+n for the next method or F2 for the menu, also in the middle of an answer."),
    ("Does the text change with the method?|Do all methods give the same answer?|Will another method change the answer?|Is "
     "the output the same with every method?|Does speculation change the text?|Does a faster method lose quality?|Is "
     "speculative decoding lossless?||Does the answer change when I switch?|Is the text the same with every method?",
     "No. Methods that are labelled identical give exactly the same text; only the speed changes."),
    ("How do I stop an answer?|How can I stop you?|Stop|stop|How do I interrupt an answer?|Can I cancel an answer?||How do "
     "I cancel the answer?|How can I interrupt you?",
     "Press esc to stop an answer; what is there stays."),
    ("How do I load another model?|How can I use a bigger model?|Can I use my own model?|How do I change the model?|How do "
     "I open a GGUF file?|Can I load a model from the Hub?||How do I use another model?|Can I load my own model?",
     "Start specchat with --model and a folder, a GGUF file or a name on the Hub, for example specchat --model model.gguf."),
    ("How do I quit?|How do I exit?|How can I leave?|How do I close specchat?|exit|quit||How do I get out of here?|How do I "
     "close this?",
     "Press ctrl+q or type /quit."),
    ("How do I copy your answer?|Can I copy the answer?|How do I copy text?||How can I copy an answer?|How do I copy this?",
     "Press ctrl+y to copy the last answer."),
    ("How do I start a new chat?|How can I clear the chat?|Can I start over?|New chat|Forget this chat.||How do I clear the "
     "chat?|How do I begin again?",
     "Press ctrl+l for a new chat; pressed again, it brings the old one back."),
    ("How do I change the temperature?|How can I set the temperature?|How do I make you more random?||Can I change the "
     "temperature?|How do I set the temperature?",
     "Type /set temperature=0.8; zero means greedy decoding."),
    ("Why is decoding faster when you repeat text?|Why is copying so quick?|Why is lookup good at copying?|Why does prompt "
     "lookup fly on copies?|When is prompt lookup fast?||When is lookup fast?|Why are copies so fast?",
     "Because the answer stands in the prompt: lookup drafts it from there, and one pass accepts many tokens."),
    ("Why are stories slow?|Why is a story slower than a copy?|Why do drafts fail in stories?|Why does lookup not help "
     "here?||Why is a story slow?|Why does lookup not help with stories?",
     "Because a new text stands nowhere in the prompt, so there is little to draft from."),
]  # fmt: skip

_OUTSIDE = """
What is the capital of {city}?|Who won the football match in {city}?|What is the weather in {city}?|How do I cook {food}?|
Write a poem about {thing}.|Who is the president of {city}?|What happened in {year}?|Translate {thing} into Latin.|
Write a program that plays chess.|How do I fix my {thing}?|Solve this equation: x^2 + {n}x = {m}.|
What is the meaning of life?|Which film should I watch?|Give me a recipe with {food}.|How far is it from {city} to {city2}?|
How old is the universe?|What is the stock price today?|Who wrote {thing} and Peace?|Plan a trip to {city}.|
How do I learn the guitar?|What is a {animal}?|Why is the sky blue?|Who was {name}?|What time is it?|What day is today?|
Book a flight to {city}.|Recommend a restaurant in {city}.|Write an essay about {thing}.|Explain quantum physics.|
Do you like {food}?|How do plants grow?|What does a {animal} eat?|Is {food} healthy?|How tall is the tallest mountain?|
When was {city} founded?|What is {n} to the power of {m}?|Should I buy a {thing}?|How do I lose weight?|
Write a song about a {animal}.|Who invented the {thing}?|How many people live in {city}?|What is love?|Tell me the news.|
Give me advice.|How does a {thing} work?|Where can I buy a {thing}?|What is the best {thing}?|Can you draw a {animal}?|
Sing a song.|Explain the theory of relativity.|What is the square root of {n}?|Write a Rust program.|
Fix this bug in my {thing}.|What is my name?|Where am I?|How do I get to {city}?|Who is {name}?|Is there life on Mars?|
Why do people {verb}?|Write a letter to {name}.|What do you think about {city}?|Which {thing} is the cheapest?|
Play a game with me.|What is the population of {city}?|Why does my {thing} make a noise?|How long does a {animal} live?|
Open the {thing}.|Where is {city}?|Is {city} bigger than {city2}?|How do I repair a {thing}?|How do I clean my {thing}?|
How do I grow a {food}?|What is {name} famous for?|When was {name} born?|Where does {name} live?|What should I eat today?|
What should I wear?|Write an email to my boss.|Write a love letter.|Write a haiku.|Write a rap about {thing}.|
Write a speech for {name}.|Write a web server.|Write a function that sorts a list.|Write code for a website.|
Write a Python script.|Debug my code.|How do I install Linux?|How do I center a div?|What is a database?|What is a compiler?|
What is Docker?|What is JavaScript?|Who is the richest person?|Who won the world cup?|Who painted this {thing}?|
Who discovered America?|Who was the first president?|What is the speed of light?|What is gravity?|What is an atom?|
What is DNA?|What is the largest ocean?|What is the longest river?|How far away is the moon?|How many planets are there?|
How many days has a year?|How hot is the sun?|How deep is the sea?|Why is the grass green?|Why do cats purr?|
Why is water wet?|Why is the sea salty?|Why do we dream?|Why does it rain?|What is the best film?|What is the best song?|
What is the best book?|What music do you like?|What is your favorite color?|Do you love me?|Do you want to marry me?|
Can you help me with my homework?|Can you write a novel?|Can you send an email?|Can you search the web?|
Can you book a hotel in {city}?|Can you call {name}?|Can you see me?|Can you drive a car?|Set an alarm.|Remind me tomorrow.|
Turn on the light.|Call my mother.|Order a pizza.|Find a doctor in {city}.|Play some music.|I am sad.|I have a headache.|
I am bored.|I need a job.|My {thing} is broken.|My {animal} is sick.|I lost my {thing}.|How do I make {food} soup?|
How do I bake a cake?|How long do I boil an egg?|Is {food} good for my {animal}?|How do I get rich?|How do I sleep better?|
How do I make friends?|How do I become a pilot?|How do I train my {animal}?|Is it going to rain in {city}?|
What is the temperature in {city}?|What is the time in {city}?|What language do they speak in {city}?|
Translate this into French: the {thing}|Translate good night into German.|How do you say {thing} in Spanish?|
What is {thing} in Italian?|What is {n} percent of {m}?|What is {n} divided by {m}?|Solve for x: {n}x = {m}.|
What is the derivative of x^2?|What is pi?|What happened yesterday?|What happened in {city} in {year}?|
What will happen in {year}?|Who ruled in {year}?|What do you think about politics?|Which party should I vote for?|
Is there a god?|What happens after death?|Are aliens real?|Compare a {thing} and a {animal}.|
What is the difference between a {animal} and a {thing}?|Which is better, {food} or {food2}?|Explain the {thing}.|
Explain {word} {word2}.|What is {word}?|What is a {made}?|What does {made} mean?|Tell me about {made}.|Tell me about {city}.|
Tell me about {name}.|Tell me about the {animal}.|Describe {city}.|Describe a {thing}.|Who is {made}?|How does {word} work?|
What is the {word} of the {word2}?|Give me a list of {word} {thing}s.|Make a plan for {word}.|Write a {word} about {thing}.|
Write a poem about {word}.|Write a poem.|Write a poem about the {thing}.|Write me a {word}.|Why is {word} so {word2}?|
How do I {word} my {thing}?|Do you know {name}?|Have you been to {city}?|Where can I find a {animal}?
""".replace("\n", "").split("|")


_FAMILIAR = {part for topic in FACTS for name in topic.names for part in name.lower().replace("-", " ").split()} | {"story"}
_STRANGE = [word for word in words.COMMON if word not in _FAMILIAR]

_OUTSIDE_KEPT = 9
"""Every ninth of these questions is asked in evaluation only."""


def _loosely(d: Draw, text: str) -> str:
    """The way people type: without capitals, without the mark at the end, with a word of courtesy."""
    if d.chance(0.12):
        text = text.lower()
    if d.chance(0.12):
        text = text.rstrip(".?!")
    if d.chance(0.1):
        text = d.pick(["Please: ", "Hey, ", "Hi, ", "A question: ", "So, ", "ok, ", "Hello. "]) + text
    elif d.chance(0.06):
        text = text.rstrip(".") + d.pick([" please", ", please", " Thanks!", " Thank you."])
    return text


def small_talk(d: Draw) -> list[Message]:
    """A greeting, a question about the model itself, or how to do something in specchat.

    There are few such questions, so none is left to chance: those behind the bars are asked in evaluation only.
    """
    questions, answer = d.pick(_SMALL_TALK)
    trained, kept = questions.split("||")
    question = d.pick((kept if d.held_out else trained).split("|"))
    return exchange(question if d.held_out else _loosely(d, question), answer)


def outside(d: Draw) -> list[Message]:
    """A question that the model cannot answer."""
    while True:
        number = d.number(0, len(_OUTSIDE) - 1)
        if (number % _OUTSIDE_KEPT == 0) == d.held_out:
            break
    question = _OUTSIDE[number].format(
        city=d.city(), city2=d.city(), food=d.pick(words.FOODS), food2=d.pick(words.FOODS), thing=d.noun(),
        animal=d.pick(words.ANIMALS), name=d.full_name(), year=d.number(1400, 2020), n=d.number(21, 99), m=d.number(21, 99),
        verb=d.pick(["dream", "laugh", "sing", "lie", "run", "travel"]), word=d.pick(_STRANGE), word2=d.pick(_STRANGE),
        made=d.made_up(),
    )  # fmt: skip
    lead = d.pick(["", "", "", "", "", "Please tell me: ", "I have a question. ", "Hey, "])
    return exchange(_loosely(d, lead + question), HONEST)


_WHAT = [
    "What is {0}?", "What is {0}?", "what is {0}", "Explain {0}.", "Please explain {0}.", "Tell me about {0}.",
    "What does {0} mean?", "Can you explain {0}?", "What do you know about {0}?", "Describe {0}.", "How does {0} work?",
    "I do not understand {0}.", "Explain {0} to me.", "What's {0}?", "{0}?", "Define {0}.", "Could you tell me what {0} is?",
    "how does {0} work?", "What is meant by {0}?", "I want to learn about {0}.", "Give me an explanation of {0}.",
    "What is {0} good for?", "Why is {0} useful?",
    "When do I need {0}?", "Explain {0} like I am new to this.", "{0}", "Help me understand {0}.", "What does {0} do?",
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
    return _loosely(d, text[0].upper() + text[1:] if form[0] == "{" and d.chance(0.7) else text)


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
    """Two or three topics, a sentence for each."""
    pool = d.pick([METHODS, FACTS])
    names = d.some([topic.names[0] for topic in pool], 3)
    topics = [next(topic for topic in pool if topic.names[0] == name) for name in names]
    if d.chance(0.7):
        return exchange(_question(d, d.pick(_COMPARE), *topics[:2]), "\n\n".join(topic.short for topic in topics[:2]))
    return exchange(_question(d, d.pick(_OVERVIEW), *topics), "\n".join(f"- {topic.short}" for topic in topics))
