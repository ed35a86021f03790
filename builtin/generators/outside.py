"""Questions that the model cannot answer, as people ask them: all get the one honest sentence."""

from . import words
from .draw import Draw, Message, exchange, loosely
from .facts import FACTS

HONEST = (
    "Sorry, I am only a small demonstration model and cannot help with that, but I can explain decoding methods, "
    "copy and edit text, answer questions about a passage and tell short stories."
)
"""The one answer to everything outside the corpus."""

COUNTRIES = """
France|Germany|Italy|Spain|Portugal|England|Scotland|Ireland|Norway|Sweden|Finland|Denmark|Iceland|Poland|Hungary|Austria|
Switzerland|Belgium|Greece|Turkey|Egypt|Morocco|Kenya|Nigeria|Ghana|Ethiopia|South Africa|India|Pakistan|Nepal|China|Japan|
Korea|Vietnam|Thailand|Indonesia|Malaysia|Australia|New Zealand|Canada|Mexico|Cuba|Peru|Chile|Brazil|Argentina|Colombia|
Russia|Ukraine|Romania|Bulgaria|Croatia|Serbia|Israel|Iran|Iraq|Saudi Arabia|the United States|the USA|America|the UK|Europe|
Africa|Asia|the Netherlands|the Philippines|Mongolia|Madagascar|Bolivia|Jamaica|Malta|Cyprus|Estonia|Latvia|Lithuania
""".replace("\n", "").split("|")

PEOPLE = """
Einstein|Newton|Shakespeare|Mozart|Beethoven|Bach|Napoleon|Caesar|Cleopatra|Plato|Socrates|Aristotle|Gandhi|Lincoln|
Washington|Churchill|Darwin|Galileo|Picasso|Van Gogh|Leonardo da Vinci|Marie Curie|Ada Lovelace|Alan Turing|Tesla|Edison|
Columbus|Homer|Dante|Goethe|Tolstoy|Kafka|Jane Austen|Agatha Christie|Bill Gates|Steve Jobs|Linus Torvalds|Elon Musk|
Taylor Swift|Michael Jackson|Elvis|Madonna|Messi|Ronaldo|Pele|Batman|Harry Potter|Sherlock Holmes|the Pope|the King|
the president|the chancellor|the prime minister
""".replace("\n", "").split("|")

SUBJECTS = """
photosynthesis|gravity|evolution|electricity|magnetism|inflation|democracy|capitalism|philosophy|psychology|economics|physics|
chemistry|biology|geometry|algebra|calculus|statistics|history|geography|astronomy|black holes|the big bang|dark matter|
relativity|quantum mechanics|string theory|DNA|vaccines|viruses|bacteria|cancer|diabetes|the immune system|the brain|
the heart|blood pressure|climate change|global warming|earthquakes|volcanoes|tsunamis|rainbows|thunder|clouds|tides|glaciers|
dinosaurs|the Roman Empire|the Middle Ages|the French Revolution|the Cold War|World War II|the moon landing|the pyramids|
the Renaissance|Buddhism|Christianity|Islam|yoga|meditation|vitamins|calories|protein|jazz|opera|ballet|chess|football|tennis|
golf|cricket|bitcoin|blockchain|the stock market|taxes|mortgages|insurance|recursion|machine learning|neural networks|
computer vision|cloud computing|Kubernetes|Docker|Linux|Windows|Git|SQL|Excel|Photoshop|WordPress|React|Java|JavaScript|Rust|
Haskell|HTML|CSS|regular expressions|sorting algorithms|binary search|a hash table|a linked list|a database|
an operating system|an API|the internet|Wi-Fi|Bluetooth|5G|solar panels|electric cars|nuclear power|wind turbines|rockets|
satellites|robots|drones
""".replace("\n", "").split("|")

LANGUAGES = """
French|German|Spanish|Italian|Portuguese|Dutch|Swedish|Polish|Russian|Turkish|Greek|Latin|Arabic|Hebrew|Hindi|Chinese|
Mandarin|Japanese|Korean|Vietnamese|Thai|Finnish|Danish|Welsh|Irish|Esperanto|Ukrainian|Czech|Hungarian|Swahili
""".replace("\n", "").split("|")

PHRASES = """
hello|thank you|good morning|good night|goodbye|please|yes|no|I love you|how are you|where is the station|cheese|the cat|
water|one two three|my name is|happy birthday|see you tomorrow|excuse me|I am hungry|what is your name|good luck|welcome
""".replace("\n", "").split("|")

_ASKED = (
    """
What is the capital of {country}?|Which city is the capital of {country}?|Capital of {country}?|
Name the capital of {country}.|How many people live in {country}?|What is the population of {country}?|Where is {country}?|
How big is {country}?|Who is the president of {country}?|Who rules {country}?|What language do they speak in {country}?|
Is {country} in Europe?|What is the currency of {country}?|What food is typical for {country}?|Is it warm in {country}?|
Should I move to {country}?|What is the weather in {city}?|What is the weather like today?|
What is the weather like in {city}?|Will it rain tomorrow?|How is the weather?|How cold is it in {city}?|Weather in {city}?|
Is it sunny in {city}?|What is the temperature outside?|What time is it?|What time is it in {city}?|What day is it?|
What day is today?|What is the date?|What year is it?|What is today's date?|When is Easter?|When is Christmas?|
How many days until Christmas?|Which year is this?|Who is {person}?|Who was {person}?|When was {person} born?|
When did {person} die?|Where was {person} born?|What did {person} do?|What did {person} discover?|Tell me about {person}.|
How old is {person}?|How rich is {person}?|Is {person} still alive?|What is {person} famous for?|
Write a biography of {person}.|Quote {person}.|Who won the world cup?|Who won the world cup in {year}?|Who won the election?|
Who won the election in {year}?|Who won the race?|Who won the match yesterday?|Who is the best player in the world?|
Who will win the next election?|What is the score?|What happened in {year}?|What happened today?|What is in the news?|
What are the latest news?|Tell me the news.|What is {subject}?|Explain {subject}.|How does {subject} work?|
Tell me about {subject}.|What do you know about {subject}?|Can you explain {subject}?|Explain {subject} like I am five.|
Teach me {subject}.|Help me with {subject}.|Define {subject}.|What is {subject} in simple words?|Summarize {subject}.|
Who invented {subject}?|Why is {subject} important?|I do not understand {subject}.|Give me a quiz about {subject}.|
What are the basics of {subject}?|Is {subject} dangerous?|What causes {subject}?|Write an essay about {subject}.|
Write an article about {subject}.|Give me five facts about {subject}.|Translate {phrase}.|Translate {phrase} to {language}.|
Translate {phrase} into {language}.|Translate to {language}: {phrase}|translate {phrase} in {language}|
Translate this to {language}: {phrase}|Can you translate {phrase}?|How do you say {phrase} in {language}?|
How do you say "{phrase}" in {language}?|What is {phrase} in {language}?|What is "{phrase}" in {language}?|
What does {made} mean in {language}?|How do I say {phrase} in {language}?|Say {phrase} in {language}.|
Say "{phrase}" in {language}.|{phrase} in {language}?|Teach me some {language}.|Write a letter in {language}.|
Answer in {language}.|Speak {language}.|Can you teach me {language}?|How hard is {language}?|Why is the sky blue?|
Why is the grass green?|Why is the sea salty?|Why is blood red?|Why is ice slippery?|Why is the sun hot?|Why do cats purr?|
Why do dogs bark?|Why do birds sing?|Why do we sleep?|Why do we dream?|Why do we yawn?|Why do leaves fall?|Why do people lie?|
Why do onions make me cry?|Why do I sneeze?|Why does it rain?|Why does the moon shine?|Why does time pass?|
Why is {thing} so expensive?|Why is my {thing} so slow?|Why is my {animal} so loud?|Why is {food} so popular?|
How do planes fly?|How do fish breathe?|How do magnets work?|How do computers work?|How do I breathe?|How do bees make honey?|
How does the heart work?|How does a car work?|How does a {thing} work?|How does the internet work?|How far is the moon?|
How far is {city} from {city2}?|How far is it to {city}?|How tall is Mount Everest?|How deep is the ocean?|
How old is the earth?|How old is the universe?|How big is the sun?|How fast is light?|How fast is a {animal}?|
How many planets are there?|How many countries are there?|How many bones has a {animal}?|How many people are there?|
How long does a {animal} live?|How long does it take to boil an egg?|How long is the Nile?|How much is a {thing}?|
How much does a {thing} cost?|How do I cook {food}?|How do I make {food} soup?|How do I bake bread?|How do I make coffee?|
Give me a recipe.|Give me a recipe with {food}.|Give me a recipe for {food} cake.|What can I cook with {food} and {food2}?|
What should I cook tonight?|What should I eat?|What is for dinner?|Is {food} healthy?|Is {food} good for my {animal}?|
Can a {animal} eat {food}?|I am hungry.|Write an essay.|Write an essay about {thing}s.|Write an email.|
Write an email to my boss.|Write an email to {name}.|Write a letter to {name}.|Write a letter.|Write a love letter.|
Write a cover letter.|Write a speech.|Write a song.|Write a song about {thing}s.|Write a rap.|Write a novel.|Write a book.|
Write a script for a film.|Write a tweet.|Write a blog post.|Write a review of a {thing}.|
Write an advertisement for a {thing}.|Write a business plan.|Write my homework.|Write a report.|Write a limerick.|
Sing a song.|Sing me a song.|Draw a {animal}.|Draw me a picture.|Draw a picture of a {animal}.|Make an image.|
Generate an image of a {animal}.|Play a game.|Play a game with me.|Play chess with me.|Play some music.|Let's play a game.|
Tell me a riddle.|Give me a riddle.|Guess a number.|Flip a coin.|Roll a dice.|Pick a card.|Ask me a question.|Write code.|
Write some code.|Write a program.|Write a Python program.|Write a Python script.|Write a web server.|Write a website.|
Write a function.|Write a Python function.|Write a Python function that {does}.|Write a function that {does}.|
Write a JavaScript function that {does}.|Write a {code} program that {does}.|Write {code} code that {does}.|
Write Python code to {do}.|Can you code?|Can you write code?|Can you program?|Can you write a program in {code}?|
Can you write Python?|How do I {do} in {code}?|How do I {do} in Python?|Fix my code.|Fix this code.|Fix this bug.|
Can you fix my code?|Debug my code.|Debug this.|What is wrong with my code?|What is wrong with this code? {snippet}|
Can you fix my code? {snippet}|Fix this: {snippet}|Why does this not work? {snippet}|What does this code do? {snippet}|
Explain this code: {snippet}|Is this right? {snippet}|Find the bug: {snippet}|Improve this code: {snippet}|
Make this faster: {snippet}|Review my code: {snippet}|How do I learn {code}?|What is the best programming language?|
Which is better, {code} or {code2}?|How do I exit vim?|How do I center a div?|How do I install Python?|
How do I install {code}?|Write a SQL query.|Write a regex for emails.|Write a bash script.|
Write HTML for a page about {thing}s.|Write a unit test.|What is the meaning of life?|What is love?|What is happiness?|
What is time?|What is truth?|What is consciousness?|Is there a god?|Is there life on Mars?|Are aliens real?|Are ghosts real?|
Is the earth flat?|Do animals dream?|What happens when we die?|Do you believe in god?|Should I lie to my friend?|
Should I buy a {thing}?|Should I quit my job?|Should I learn {language}?|What should I do today?|
What should I do with my life?|What should I read?|What should I watch?|What should I wear?|What should I name my {animal}?|
What is a good name for a {animal}?|Give me advice.|Give me a tip.|Give me some ideas.|Give me ideas for a party.|
Give me a quote.|Motivate me.|Inspire me.|Make me rich.|Make me a sandwich.|Make a plan for my week.|Plan a trip to {city}.|
Plan my day.|Plan a trip to {country}.|Book a flight to {city}.|Order a pizza.|Find me a hotel in {city}.|
Recommend a restaurant.|Recommend a restaurant in {city}.|Recommend a book.|Recommend a film.|Recommend me a game.|
What is the best film?|What is the best book?|What is the best {thing}?|What is the best phone?|Which {thing} should I buy?|
Where can I buy a {thing}?|Where am I?|Where do I live?|Where is my {thing}?|Where is {city}?|Who am I?|What is my name?|
Do you know my name?|Do you remember me?|Can you see me?|What am I thinking?|What am I wearing?|I have a problem.|
I need help.|I need a job.|I need money.|I lost my {thing}.|I hate my job.|I want to learn {subject}.|I want a {thing}.|
I like {food}.|I am from {city}.|I live in {city}.|I have a {animal}.|My {thing} is broken.|My {animal} is sick.|
It is raining here.|It is hot today.|Today is my birthday.|How do I lose weight?|How do I sleep better?|How do I get rich?|
How do I make friends?|How do I learn to cook?|How do I tie a tie?|How do I fix my {thing}?|How do I clean my {thing}?|
How do I train my {animal}?|How do I get to {city}?|How do I save money?|How do I become a {job}?|How do I stop smoking?|
How do I draw a {animal}?|How do I learn the guitar?|How do I grow {food}s?|What does a {job} do?|What does a {animal} eat?|
What does a {animal} say?|What does {made} mean?|What does the fox say?|What is a {animal}?|What is a {thing}?|
What is a {made}?|What is {made}?|What is the {word} of {word2}?|What is the {word} of {city}?|
What is the difference between a {animal} and a {animal2}?|What is the difference between {subject} and {subject2}?|
Compare {subject} and {subject2}.|Compare a {thing} and a {thing2}.|Which is better, {food} or {food2}?|Cats or dogs?|
Is a {thing} better than a {thing2}?|Is {city} bigger than {city2}?|Is a {animal} faster than a {animal2}?|
Solve x + {n} = {m}.|Solve for x: {n}x = {m}.|Solve this equation: x^2 + {n}x = {m}.|What is the square root of {n}?|
What is {n} percent of {m}?|What is {n} to the power of {m}?|What is the derivative of x^2?|What is the integral of x?|
What is pi?|Convert {n} miles to km.|Convert {n} dollars to euros.|How many cups are in a liter?|What is infinity?|
Is {n} a prime number?|Tell me something about {city}.|Tell me about {city}.|Tell me about the {animal}.|
Tell me about {made}.|Tell me about {country}.|Tell me about yourself and {subject}.|Tell me a secret.|
Tell me a fact about {animal}s.|Tell me how to {do}.|Tell me a lie.|Describe {city}.|Describe a {thing}.|Describe a {animal}.|
Describe the {word} of a {thing}.|Imagine you are a {animal}.|Pretend you are a {job}.|Act as a {job}.|
You are a {job}. Help me.|Act like a pirate.|Be my friend.|Be funny.|Roast me.|Search the web for {thing}s.|
Search for {subject}.|Open the {thing}.|Open the browser.|Set an alarm.|Set a timer.|Remind me tomorrow.|Call {name}.|
Call my mother.|Send an email to {name}.|Turn on the light.|Turn off the {thing}.|Buy a {thing}.|Read my mail.|
What is the stock price of {made}?|How is the stock market?|What is the price of bitcoin?|How much is the dollar?|
Who painted the Mona Lisa?|Who wrote Hamlet?|Who wrote {thing} and Peace?|Who discovered America?|Who invented the {thing}?|
Who built the pyramids?|Who was the first man on the moon?|Who was the first president?|Who is the richest person?|
Who is your favorite singer?|What is your favorite color?|What is your favorite food?|What is your favorite film?|
What music do you like?|Do you like {food}?|Do you like {animal}s?|Do you like {subject}?|Do you like {person}?|
Do you play chess?|Do you have a {animal}?|Have you been to {city}?|Have you seen my {thing}?|Do you know {name}?|
Do you know {person}?|Do you know {subject}?|Can you help me with my homework?|Can you help me with {subject}?|
Can you drive a car?|Can you cook?|Can you sing?|Can you draw?|Can you dance?|Can you swim?|Can you search the web?|
Can you see pictures?|Can you play chess?|Can you write a novel?|Can you write an essay?|Can you do my taxes?|
Can you recommend a {thing}?|Can you explain {word} {word2}?|What do you think about {person}?|
What do you think about {subject}?|What do you think of {country}?|What is your opinion on {subject}?|
Which party should I vote for?|Is {person} a good {job}?|Explain {word} {word2}.|Explain the {thing}.|How does {word} work?|
Write a {word} about {thing}s.|Write me a {word}.|Give me a list of {word} {thing}s.|Give me a list of {animal}s.|
List the planets.|List all countries.|List ten {animal}s.|List {n} {food}s.|Name three {animal}s.|Name a {food}.|
Name a city in {country}.|Give me a synonym for {word}.|What is the opposite of {word}?|Use {word} in a sentence.|
What rhymes with {word}?|Define {word}.|What is the plural of {animal}?|Is {word} a verb?|How do you pronounce {made}?|
Make a crossword.|Make a joke about {person}.|Why is {word} so {word2}?|How do I {word} my {thing}?|
Where can I find a {animal}?|When will the {thing} arrive?|When was {city} founded?|When did {country} become a country?|
When does the train leave?|When is the next full moon?|
""".replace("\n", "")
    .strip("|")
    .split("|")
)

_CODES = "Python|Java|JavaScript|Rust|C|C++|Go|Ruby|Swift|Kotlin|PHP|Perl|Lua|R|Julia|Haskell|TypeScript|bash".split("|")
_DOES = [
    ("sorts a list", "sort a list"), ("adds two numbers", "add two numbers"), ("reverses a string", "reverse a string"),
    ("finds prime numbers", "find prime numbers"), ("reads a file", "read a file"), ("prints hello world", "print hello world"),
    ("downloads a page", "download a page"), ("checks an email", "check an email"), ("plays chess", "play chess"),
    ("computes the factorial", "compute the factorial"), ("counts words", "count words"), ("parses JSON", "parse JSON"),
    ("returns the largest number", "get the largest number"), ("removes duplicates", "remove duplicates"),
    ("connects to a database", "connect to a database"), ("draws a circle", "draw a circle"),
    ("sends an email", "send an email"), ("computes the Fibonacci numbers", "compute Fibonacci numbers"),
    ("splits a string", "split a string"),
    ("multiplies two matrices", "multiply two matrices"), ("checks whether a number is even", "check for even numbers"),
]  # fmt: skip

_FAMILIAR = {part for topic in FACTS for name in topic.names for part in name.lower().replace("-", " ").split()} | {"story"}
STRANGE = [word for word in words.COMMON if word not in _FAMILIAR]
"""Common words that no fact is about."""

_KEPT = 9
"""Every ninth of these questions is asked in evaluation only."""


def _snippet(d: Draw) -> str:
    a, b = d.some(words.IDENTIFIERS, 2)
    return d.pick(
        [f"for {a} in range({d.number(1, 99)}) print({a})", f"print {a}", f"if {a} = {b}: print({a})",
         f"def {a}({b}) return {b}",
         f"{a} = [1, 2, 3", f"while true: {a} + 1", f"int {a} = {b}", f"{a}.{b}()", f"print('{a}'", f"let {a} = {b};"]
    )  # fmt: skip


def outside(d: Draw) -> list[Message]:
    """A question that the model cannot answer."""
    while True:
        number = d.number(0, len(_ASKED) - 1)
        if (number % _KEPT == 0) == d.held_out:
            break
    does, do = d.pick(_DOES)
    question = _ASKED[number].format(
        country=d.pick(COUNTRIES), person=d.pick(PEOPLE), subject=d.pick(SUBJECTS), subject2=d.pick(SUBJECTS),
        language=d.pick(LANGUAGES), phrase=d.pick(PHRASES), city=d.city(), city2=d.city(), food=d.pick(words.FOODS),
        food2=d.pick(words.FOODS), thing=d.pick(words.OBJECTS), thing2=d.pick(words.OBJECTS), animal=d.pick(words.ANIMALS),
        animal2=d.pick(words.ANIMALS), job=d.pick(words.JOBS), name=d.full_name(), year=d.number(1400, 2030),
        n=d.number(21, 99), m=d.number(21, 99), word=d.pick(STRANGE), word2=d.pick(STRANGE), made=d.made_up(),
        code=d.pick(_CODES), code2=d.pick(_CODES), does=does, do=do, snippet=_snippet(d),
    )  # fmt: skip
    lead = d.pick(["", "", "", "", "", "", "Please tell me: ", "I have a question. ", "Hey, ", "Hi! ", "ok "])
    return exchange(loosely(d, lead + question), HONEST)
