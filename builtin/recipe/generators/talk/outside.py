"""Questions that the model cannot answer, as people ask them: all get the one honest sentence."""

import re

from .. import words
from ..draw import Draw, Message, articles, exchange
from ..facts import FACTS
from ..sentences import sentences
from ..wording import BRIEF, HOW, OPENED, SAME, WHAT, ask
from .world import CODES, COUNTRIES, DOES, LANGUAGES, PEOPLE, PHRASES, SUBJECTS

HONEST = (
    "Sorry, I am only a small demonstration model and cannot help with that, but I can explain decoding methods, "
    "copy and edit text, answer questions about a passage and tell short stories."
)
"""The one answer to everything outside the corpus."""

_ROWS = """
what is the capital of {country}?|which city is the capital of {country}?|capital of {country}?|name the capital of {country}|
how many people live in {country}?|what is the population of {country}?|where is {country}?|how big is {country}?|
who is the president of {country}?|who rules {country}?|what language do they speak in {country}?|is {country} in Europe?|
what is the currency of {country}?|what food is typical for {country}?|is it warm in {country}?|should I move to {country}?|
what is the weather in {city}?|what is the weather like today?|what is the weather like in {city}?|will it rain tomorrow?|
how is the weather?|how cold is it in {city}?|weather in {city}?|is it sunny in {city}?|what is the temperature outside?|
what time is it?|what time is it in {city}?|what day is it?|what day is today?|what is the date?|what year is it?|
what is today's date?|when is Easter?|when is Christmas?|how many days until Christmas?|which year is this?|who was {person}?|
when was {person} born?|when did {person} die?|where was {person} born?|what did {person} do?|what did {person} discover?|
how old is {person}?|how rich is {person}?|is {person} still alive?|what is {person} famous for?|
write a biography of {person}|quote {person}|who won the world cup?|who won the world cup in {year}?|who won the election?|
who won the election in {year}?|who won the race?|who won the match yesterday?|who is the best player in the world?|
who will win the next election?|what is the score?|what happened in {year}?|what happened today?|what is in the news?|
what are the latest news?|tell me the news|who invented {subject}?|give me a quiz about {subject}|
what are the basics of {subject}?|what causes {subject}?|write an essay about {subject}|write an article about {subject}|
give me five facts about {subject}|translate {phrase}|translate {phrase} to {language}|translate {phrase} into {language}|
translate to {language}: {phrase}|translate {phrase} in {language}|translate this to {language}: {phrase}|
can you translate {phrase}?|how do you say {phrase} in {language}?|how do you say "{phrase}" in {language}?|
what is {phrase} in {language}?|what is "{phrase}" in {language}?|what does {made} mean in {language}?|
say {phrase} in {language}|say "{phrase}" in {language}|{phrase} in {language}?|teach me some {language}|
write a letter in {language}|speak {language}|can you teach me {language}?|how hard is {language}?|why is the sky blue?|
why is the grass green?|why is the sea salty?|why is blood red?|why is ice slippery?|why is the sun hot?|why do cats purr?|
why do dogs bark?|why do birds sing?|why do we sleep?|why do we dream?|why do we yawn?|why do leaves fall?|why do people lie?|
why do onions make me cry?|why do I sneeze?|why does it rain?|why does the moon shine?|why does time pass?|
why is {thing} so expensive?|why is my {thing} so slow?|why is my {animal} so loud?|why is {food} so popular?|
how do planes fly?|how do fish breathe?|how do magnets work?|how do computers work?|how do bees make honey?|
how does the heart work?|how does a car work?|how does a {thing} work?|how does the internet work?|how far is the moon?|
how far is {city} from {city2}?|how far is it to {city}?|how tall is Mount Everest?|how deep is the ocean?|
how old is the earth?|how old is the universe?|how big is the sun?|how fast is light?|how fast is a {animal}?|
how many planets are there?|how many countries are there?|how many bones has a {animal}?|how many people are there?|
how long does a {animal} live?|how long does it take to boil an egg?|how long is the Nile?|how much is a {thing}?|
how much does a {thing} cost?|give me a recipe|give me a recipe with {food}|give me a recipe for {food} cake|
what can I cook with {food} and {food2}?|what should I cook tonight?|what should I eat?|what is for dinner?|
is {food} healthy?|is {food} good for my {animal}?|can a {animal} eat {food}?|write an essay|write an essay about {thing}s|
write an email|write an email to my boss|write an email to {name}|write a letter to {name}|write a letter|write a love letter|
write a cover letter|write a speech|write a song|write a song about {thing}s|write a rap|write a novel|write a book|
write a script for a film|write a tweet|write a blog post|write a review of a {thing}|write an advertisement for a {thing}|
write a business plan|write my homework|write a report|write a limerick|sing a song|sing me a song|draw a {animal}|
draw me a picture|draw a picture of a {animal}|make an image|generate an image of a {animal}|play a game|play a game with me|
play chess with me|play some music|let's play a game|tell me a riddle|give me a riddle|guess a number|flip a coin|roll a dice|
pick a card|ask me a question|write code|write some code|write a program|write a Python program|write a Python script|
write a web server|write a website|write a function|write a Python function|write a Python function that {does}|
write a function that {does}|write a JavaScript function that {does}|write a {code} program that {does}|
write {code} code that {does}|write Python code to {do}|can you code?|can you write code?|can you program?|
can you write a program in {code}?|can you write Python?|fix my code|fix this code|fix this bug|can you fix my code?|
debug my code|debug this|what is wrong with my code?|what is wrong with this code? {snippet}|can you fix my code? {snippet}|
fix this: {snippet}|why does this not work? {snippet}|what does this code do? {snippet}|explain this code: {snippet}|
is this right? {snippet}|find the bug: {snippet}|improve this code: {snippet}|make this faster: {snippet}|
review my code: {snippet}|what is the best programming language?|write a SQL query|write a regex for emails|
write a bash script|write HTML for a page about {thing}s|write a unit test|what is the meaning of life?|what is love?|
what is happiness?|what is time?|what is truth?|what is consciousness?|is there a god?|is there life on Mars?|
are aliens real?|are ghosts real?|is the earth flat?|do animals dream?|what happens when we die?|do you believe in god?|
should I lie to my friend?|should I buy a {thing}?|should I quit my job?|should I learn {language}?|what should I do today?|
what should I do with my life?|what should I read?|what should I watch?|what should I wear?|what should I name my {animal}?|
what is a good name for a {animal}?|give me advice|give me a tip|give me some ideas|give me ideas for a party|give me a quote|
motivate me|inspire me|make me rich|make me a sandwich|make a plan for my week|plan a trip to {city}|plan my day|
plan a trip to {country}|book a flight to {city}|order a pizza|find me a hotel in {city}|recommend a restaurant|
recommend a restaurant in {city}|recommend a book|recommend a film|recommend me a game|what is the best film?|
what is the best book?|what is the best {thing}?|what is the best phone?|which {thing} should I buy?|
where can I buy a {thing}?|where am I?|where do I live?|where is my {thing}?|where is {city}?|who am I?|what is my name?|
do you know my name?|can you see me?|what am I thinking?|what am I wearing?|what does a {job} do?|what does a {animal} eat?|
what does a {animal} say?|what does the fox say?|what is the {word} of {word2}?|what is the {word} of {city}?|cats or dogs?|
is {city} bigger than {city2}?|is a {animal} faster than a {animal2}?|solve x + {n} = {m}|solve for x: {n}x = {m}|
solve this equation: x^2 + {n}x = {m}|what is the square root of {n}?|what is {n} percent of {m}?|
what is {n} to the power of {m}?|what is the derivative of x^2?|what is the integral of x?|what is pi?|
convert {n} miles to km|convert {n} dollars to euros|how many cups are in a liter?|what is infinity?|is {n} a prime number?|
tell me about yourself and {subject}|tell me a secret|tell me a fact about {animal}s|tell me how to {do}|tell me a lie|
describe the {word} of a {thing}|imagine you are a {animal}|pretend you are a {job}|act as a {job}|act like a pirate|
be my friend|be funny|roast me|search the web for {thing}s|search for {subject}|open the {thing}|open the browser|
set an alarm|set a timer|remind me tomorrow|call {name}|call my mother|send an email to {name}|turn on the light|
turn off the {thing}|buy a {thing}|read my mail|what is the stock price of {made}?|how is the stock market?|
what is the price of bitcoin?|how much is the dollar?|who painted the Mona Lisa?|who wrote Hamlet?|
who wrote {thing} and Peace?|who discovered America?|who invented the {thing}?|who built the pyramids?|
who was the first man on the moon?|who was the first president?|who is the richest person?|who is your favorite singer?|
what is your favorite color?|what is your favorite food?|what is your favorite film?|what music do you like?|
do you like {food}?|do you like {animal}s?|do you like {subject}?|do you like {person}?|do you play chess?|
do you have a {animal}?|have you been to {city}?|have you seen my {thing}?|do you know {name}?|
can you help me with my homework?|can you help me with {subject}?|can you drive a car?|can you cook?|can you sing?|
can you draw?|can you dance?|can you swim?|can you search the web?|can you see pictures?|can you play chess?|
can you write a novel?|can you write an essay?|can you do my taxes?|can you recommend a {thing}?|
what do you think about {person}?|what do you think about {subject}?|what do you think of {country}?|
what is your opinion on {subject}?|which party should I vote for?|is {person} a good {job}?|write a {word} about {thing}s|
write me a {word}|give me a list of {word} {thing}s|give me a list of {animal}s|list the planets|list all countries|
list ten {animal}s|list {n} {food}s|name three {animal}s|name a {food}|name a city in {country}|give me a synonym for {word}|
what is the opposite of {word}?|use {word} in a sentence|what rhymes with {word}?|what is the plural of {animal}?|
is {word} a verb?|how do you pronounce {made}?|make a crossword|why is {word} so {word2}?|where can I find a {animal}?|
when will the {thing} arrive?|when was {city} founded?|when did {country} become a country?|when does the train leave?|
when is the next full moon?|=Answer in {language}|=I am hungry|=I have a problem|=I need help|=I need a job|=I need money|
=I lost my {thing}|=I hate my job|=I want a {thing}|=I like {food}|=I am from {city}|=I live in {city}|=I have a {animal}|
=My {thing} is broken|=My {animal} is sick|=It is raining here|=It is hot today|=You are a {job}. Help me
""".replace("\n", "").split("|")
"""Questions, requests and, after `=`, anything else, as in `wording.framed`."""

_WISHES = """
say {phrase} in {language}|breathe|cook {food}|make {food} soup|bake bread|make coffee|{do} in {code}|{do} in Python|
learn {code}|exit vim|center a div|install Python|install {code}|lose weight|sleep better|get rich|make friends|learn to cook|
tie a tie|fix my {thing}|clean my {thing}|train my {animal}|get to {city}|save money|become a {job}|stop smoking|
wipe my {thing}|draw a {animal}|learn the guitar|grow {food}s|{word} my {thing}|change my {thing}|clear my {place}|
open a {thing}|start a {thing}|copy a {thing}|delete my account|reset my password|switch to {language}|restart my computer|
change my name|turn off the {thing}|load a {thing} into a {thing2}|choose a {thing}|quit my job|leave {city}|close a {thing}|
begin a new life|race a {animal}|pause the music|save a {animal}|send a {thing} to {name}|use my own {thing}|print a {thing}|
search for my {animal}|attach a {thing}|find my {thing}|clean the {place}|paint the {place}|move to {country}|
book a hotel in {city}|ask {name} out|catch a {animal}|undo a mistake with my {animal}|continue my {thing}|stop my {animal}|
begin to learn {language}|wash a {thing}|boil an egg|connect my {thing}|charge my {thing}|buy a {thing}|sell my {thing}|
update Windows|delete a file in Linux|format a disk|hack a {thing}|make {food} juice|plant {food}s|write a book|
get a visa for {country}|drive to {city}|cut my hair|speak {language}|fly a {thing}
""".replace("\n", "").split("|")
"""Wishes that specchat is not for; the frames are those of `wording.HOW`."""

_VARIED = re.split(
    r"\n(?=\S)",
    """
(what|which) is the (tallest|oldest|biggest|smallest|best|most famous|longest|richest)
    (city|building|river|mountain|{animal}|bridge|person) in {country}?
who (is|was) the (first|best|richest|most famous|youngest|greatest) ({job}|king|queen|president|woman|singer) (in|of)
    {country}?
how (far|long|expensive) is (the way|a flight|a train|the road) from {city} to {city2}?
(what|which) (film|book|song|game|series|restaurant|hotel|phone|laptop) (should I (watch|read|buy|try)|do you
    (like|recommend))( next| tonight|)?
how many ({animal}s|people|{thing}s|students|cars) are there in {country}?
(what happens|what do I do|what should I do) if (I (lose|break|drop|forget) my {thing}|my {animal} eats {food}s|it rains|the
    {thing} breaks)?
why (is|was) (my|the|his|her|this) ({thing}|{animal}|neighbor|boss|{job}) (so |always
    |)({adjective}|loud|slow|expensive|late|broken)?
(when|where) (can|do|should|will) I (buy|find|meet|see|get|fix|sell|plant) (a|my|the) ({thing}|{animal}|{job}|{food})?
(can|could|will|would) you (call|text|visit|pay|drive|marry|phone|wake) (me|{name}|my {job}|my mother)( tomorrow| now| at
    eight|)?
(order|buy|book|reserve|find|rent) (me |)(a {thing}|a table|a room in {city}|a taxi|some {food}s|a ticket to {city})
(remind|tell|call|ask) (me|{name}|my boss) (tomorrow|at eight|to buy {food}s|about the {thing})
(turn|switch) (on|off) (the|my) ({thing}|light|heating|music|tv)
(play|put on|sing) (me |)(some music|a song|jazz|a song about {thing}s|the radio)
(write|compose|draft|make) (me |)(an essay|a report|a cover letter|an email|a letter|a speech|a blog post|a press release|a
    song) (about|on|for) (a {thing}|{subject}|my {job}|{name})
(write|create|make|give me) (a|some) (python|java|rust|sql|bash|c) (script|function|program|code|query|class) (that {does}|to
    {do})
(give|find|tell) me (a recipe|recipes|ideas|tips|advice|names) (for|about|with) ({food}s|a {thing}|my {animal}|dinner|a party)
(what|how much) (is|are|does) (a {thing}|{food}s|a {animal}|a flight to {city}|bitcoin|gold) (cost |worth |)(today|now|in
    {country}|)?
(recommend|suggest) (me |)(a|an|some|a good) (book|film|restaurant in {city}|game|{thing}|{food} recipe|song)
(do you|would you|can you) (like|prefer|eat|know|want) ({food}s|{animal}s|{subject}|music|{city}|football|{person})?
(solve|calculate|work out|find) (x + {n} = {m}|the square root of {n}|{n} percent of {m}|the area of a circle with radius
    {n}|the derivative of x^{n})
(draw|paint|show|generate|make) (me |)(a picture|an image|a photo|a drawing|a logo) (of|with|for) (a {animal}|{city}|a
    {thing}|my {job})
(who|what) (won|lost|happened in|caused|started|ended) (the war|the cup|the election|the race|world war two|the match) (in
    {year}|yesterday|last week|)?
(translate|put|turn|say) ("{phrase}"|{phrase}|my text|a sentence|this song) (into|in|to) {language}
is (it|there|he|she) (going to rain|a god|life on mars|a cure for {subject}|in {city}|a {thing} in {country})( tomorrow|
    today|)?
(pretend|imagine|act as if) you (are|were) (a {animal}|a {job}|{person}|my friend|a pirate|from {country})
=my ({thing}|{animal}|{job}|boss|car|computer) (is|was|does not work|hates me|is broken|makes noise)( again| today|)
=I (want|need|would like|am looking for) (a|some|a new) ({thing}|{animal}|job|holiday|friend|{food}|advice|help with
    {subject})
=I (hate|love|like|miss|lost|broke|bought|sold) (my {thing}|{food}s|{city}|my {animal}|{subject}|the {job})
(should|must|may|can) I (buy|eat|sell|marry|learn|visit|trust|call) (a {thing}|{food}s|a {job}|{language}|{city}|my
    {animal}|{name})?
(how|why) (do|can|does) (a {animal}|a {thing}|people|{animal}s|birds|the sun|a {job}) (sleep|fly|work|shine|eat|swim|get
    old|see)( at night| in winter|)?
(what|how) (is|was) the (weather|news|traffic|score|temperature|mood) (in {city}|today|tomorrow|in {country}|like|right now)?
(plan|organize|prepare) (a trip to {city}|my week|a party for {name}|a wedding|my holiday in {country}|a meeting with {name})
""".strip(),
)

_FAMILIAR = {part for topic in FACTS for name in topic.names for part in name.lower().replace("-", " ").split()} | {"story"}
STRANGE = [word for word in words.COMMON if word not in _FAMILIAR]
"""Common words that no fact is about."""

_TOPICS = [
    "{subject}", "{subject}", "{subject}", "{person}", "{city}", "{country}", "a {thing}", "a {animal}", "the {thing}",
    "{made}", "a {made}", "{word} {word2}", "{food}s", "{code}", "a {job}", "the {place}", "{language}", "a {adjective} {thing}"
]  # fmt: skip


def _side(d: Draw, pool: list[str]) -> str:
    """One of those that are for training, or for evaluation: every ninth."""
    return d.pick(pool[::9] if d.held_out else [entry for number, entry in enumerate(pool) if number % 9])


def _snippet(d: Draw) -> str:
    a, b = d.some(words.IDENTIFIERS, 2)
    return d.pick(
        [f"for {a} in range({d.number(1, 99)}) print({a})", f"print {a}", f"if {a} = {b}: print({a})",
         f"def {a}({b}) return {b}",
         f"{a} = [1, 2, 3", f"while true: {a} + 1", f"int {a} = {b}", f"{a}.{b}()", f"print('{a}'", f"let {a} = {b};"]
    )  # fmt: skip


def _fields(d: Draw) -> dict[str, str]:
    does, do = d.pick(DOES)
    return {
        "country": _side(d, COUNTRIES), "person": _side(d, PEOPLE), "subject": _side(d, SUBJECTS),
        "subject2": _side(d, SUBJECTS),
        "language": _side(d, LANGUAGES), "phrase": _side(d, PHRASES), "city": d.city(), "city2": d.city(),
        "food": _side(d, words.FOODS), "food2": _side(d, words.FOODS), "thing": _side(d, words.OBJECTS),
        "thing2": _side(d, words.OBJECTS), "animal": _side(d, words.ANIMALS), "animal2": _side(d, words.ANIMALS),
        "job": _side(d, words.JOBS), "name": d.full_name(), "year": str(d.number(1400, 2030)), "n": str(d.number(21, 99)),
        "m": str(d.number(21, 99)), "word": _side(d, STRANGE), "word2": _side(d, STRANGE), "made": d.made_up(),
        "place": _side(d, words.PLACES), "adjective": _side(d, words.ADJECTIVES), "code": _side(d, CODES),
        "code2": _side(d, CODES), "does": does, "do": do, "snippet": _snippet(d),
    }  # fmt: skip


_UNABLE = """
(fix|correct|check|mend) (the|my|all) (spelling|grammar|typos|mistakes|errors|punctuation) (in|of) @text|
(proofread|spellcheck) @text|
(rewrite|rephrase|paraphrase|improve|polish|reword) @text( more politely| in a formal tone| in simple words| for a child|
better|)|translate @text( to {language}| into {language}|)|(put|turn) @text into {language}|
(continue|finish|complete|go on with) @text|(explain|analyze|interpret|review|rate|judge|comment on) @text|
what is the (tone|mood|style|deeper meaning|moral) of @text?|
is @text (correct|good english|well written|true|a fact|funny|polite)?|what do you think (of|about) @text?|
who wrote @text?|find the (mistake|error|lie|joke) in @text|
make @text (funnier|longer|more polite|rhyme|sound better|nicer|more formal|into a song)|
(answer|reply to) @text( as an email| politely|)|(remove|delete) (the|all) vowels (from|in) @text|what comes next?|
(guess|tell me|find out) (who wrote|who said|how old the author of) @text|(read|sing) @text aloud|draw @text|
(send|mail|post|tweet) @text( to {name}|)|(turn|make) @text into a (poem|song|quiz|letter|speech|picture|story)"""


def outside(d: Draw) -> list[Message]:
    """Ask for something beyond this model, in the same frames as for the rest."""
    fields = _fields(d)
    x, y = (articles(_side(d, _TOPICS).format(**fields | {"subject": fields[name]})) for name in ("subject", "subject2"))
    match d.number(0, 19):
        case 0 | 1 | 2:
            question = ask(d, WHAT, x=x)
        case 3:
            question = ask(d, BRIEF, x=x)
        case 4 | 5:
            question = ask(d, SAME, x=x, y=y) if x != y else ask(d, WHAT, x=x)
        case 6:
            question = ask(d, _UNABLE, sentences(d, d.span(1, 3)), OPENED, **fields)
        case 7 | 8 | 9:
            question = ask(d, HOW.replace("~", _side(d, _WISHES)), "", OPENED, **fields)
        case 10 | 11 | 12:
            question = ask(d, _side(d, _VARIED), "", OPENED, **fields)
        case _:
            question = ask(d, _side(d, _ROWS), "", OPENED, **fields)
    return exchange(question, HONEST)
