"""The world outside: what people ask a model about, and this one knows nothing of."""

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
the heart|blood pressure|backpropagation|gradient descent|reinforcement learning|diffusion models|overfitting|a loss function|
CUDA|the Turing test|AGI|vector databases|a compiler|a pointer|TCP|DNS|encryption|quantum computers|virtual machines|a stack|
mixture of experts|convolution|self-driving cars|OpenAI|a random forest|k-means|PageRank|a spreadsheet|a firewall|spam|
a browser|climate change|global warming|earthquakes|volcanoes|tsunamis|rainbows|thunder|clouds|tides|glaciers|dinosaurs|
the Roman Empire|the Middle Ages|the French Revolution|the Cold War|World War II|the moon landing|the pyramids|
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

CODES = "Python|Java|JavaScript|Rust|C|C++|Go|Ruby|Swift|Kotlin|PHP|Perl|Lua|R|Julia|Haskell|TypeScript|bash".split("|")
DOES = [
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
