"""Word pools that the generators draw from, written for this project.

Pools are plain strings split on white space, which keeps them readable and their order fixed.
"""

FIRST_NAMES = """
Ada Alan Alba Alice Amara Amir Ana Anders Anna Anton Aria Arjun Astrid Ava Bela Ben Bianca Boris Bruno Carla Carlos Cem
Chen Chloe Clara Cyrus Dan Daria David Dina Diego Elena Eli Elif Emil Emma Erik Eva Farah Felix Finn Flora Freya Gita
Grace Greta Hana Hans Hugo Ida Igor Ines Ingrid Iris Ivan Jack Jana Jonas Jun Kai Karim Kate Kenji Lars Laura Lea Lena
Leo Lily Lina Lucas Lucia Luis Luna Maja Marco Maria Mark Marta Maya Mei Mia Mila Mina Mira Mona Nadia Nina Noah Nora
Olga Oliver Omar Oscar Otto Paula Pedro Petra Pia Priya Rania Ravi Rosa Ruth Sam Sara Selma Silas Sofia Sven Tara Theo
Tim Tom Uma Vera Victor Wanda Wei Yara Yuki Yusuf Zara Zoe Abel Agnes Basil Cora Dora Edgar Fiona Gus Hazel Irma Jasper
Klaus Lotte Magnus Nils Opal Percy Quinn Rufus Stella Tessa Ulla Viola Walter Xenia York Zeno
""".split()

LAST_NAMES = """
Abbott Adler Baker Barros Becker Berg Brandt Brooks Carter Castro Chen Cole Costa Cruz Dahl Diaz Ekman Evans Fischer
Flores Fox Garcia Gomez Grant Gray Green Haas Hall Hansen Hayes Hill Holm Ito Jensen Kato Keller Khan Kim King Klein
Kovacs Lang Larsen Lee Lima Lopez Marsh Mason Meyer Mills Mori Nash Novak Okafor Olsen Ortiz Park Patel Perez Petrov
Quist Ramos Reed Rossi Roth Sato Schmidt Shah Silva Singh Stone Suzuki Tanaka Torres Vogel Wagner Walsh Wang Ward Weber
West White Wolf Wong Wood Yamada Young Zhang Ziegler Lindqvist Moreau Nakamura Osei Pereira Rasmussen Saarinen Thorne
""".split()

CITIES = """
Amsterdam Athens Austin Bergen Berlin Bern Bogota Boston Bristol Brussels Cairo Chicago Cork Dakar Delhi Denver Dublin
Florence Geneva Ghent Glasgow Hamburg Hanoi Havana Helsinki Istanbul Jakarta Kyiv Kyoto Lagos Leeds Leipzig Lima Lisbon
London Lyon Madrid Malmo Miami Milan Montreal Munich Nairobi Naples Oslo Osaka Paris Porto Prague Quito Riga Rome
Rotterdam Salzburg Seattle Seoul Seville Sofia Stockholm Sydney Tallinn Tokyo Toronto Turin Utrecht Valencia Vienna
Vilnius Warsaw York Zagreb Zurich Tromso Ostrava Padua Kazan Basel Dresden Galway Hobart Izmir Kumasi Lahore Merida
""".split()

STREETS = """
Maple Oak Cedar Elm Pine Birch Station Church Mill River Lake Garden Market King Queen Park Bridge Hill School Harbor
Meadow Willow Chestnut Castle Windmill Orchard Forest Tower Rose Linden
""".split()

ANIMALS = """
cat dog fox owl bear wolf frog crow hare deer mouse horse goat duck swan otter badger rabbit turtle sparrow beetle whale
seal crab moth heron lynx pony hen goose raven hedgehog salmon spider bat lizard donkey squirrel penguin eagle
""".split()

FOODS = """
apple pear plum grape lemon lime cherry peach melon mango banana orange fig carrot onion potato tomato leek celery bean
pea corn rice bread cheese butter milk honey sugar salt pepper tea coffee soup pasta cake pie egg yogurt olive garlic
ginger mint basil flour oats walnut almond cocoa jam avocado cucumber zucchini spinach broccoli pumpkin radish beet
apricot coconut kiwi papaya raspberry blueberry muffin waffle pancake pretzel biscuit cracker sausage burrito noodle pizza
salad sandwich toast juice lemonade water vinegar mustard honeydew lentil chickpea tofu cinnamon vanilla
""".split()

OBJECTS = """
book lamp chair table door window key clock map letter box bag cup plate spoon knife bottle basket rope ladder hammer
nail wheel boat kite drum flute bell mirror candle blanket pillow coat hat shoe glove ring coin stone shell feather
brush bucket pencil pen paper camera phone radio engine lantern compass umbrella ticket suitcase bicycle notebook
telescope violin carpet curtain fence gate bench statue shelf drawer ribbon button needle thread sofa fridge oven kettle
pan bowl fork towel soap tent jacket sweater scarf sock belt wallet backpack laptop tablet charger cable printer mouse
battery helmet scooter bus train van tractor puzzle doll robot puppet poster painting photo postcard stamp envelope
calendar diary magazine newspaper poem song trophy medal crown vase jar barrel crate cupboard stool desk mattress roof
chimney window sign flag whistle trumpet guitar piano cello magnet wrench saw shovel rake hose plant
""".split()

PLACES = """
garden kitchen forest harbor market library museum station school village castle bridge river lake valley mountain
island beach field farm barn mill tower cellar attic hall park square street office workshop bakery theater hospital
airport hotel cave desert meadow orchard lighthouse
""".split()

ADJECTIVES = """
old new small large quick slow quiet loud bright dark warm cold soft hard clean dirty heavy light empty full round flat
long short tall wide narrow deep shallow early late red blue green yellow white black brown gray golden silver wooden
broken simple strange gentle brave clever curious calm kind proud tired hungry happy sad angry lucky careful patient
honest busy lazy rusty shiny hidden distant ancient modern famous secret crooked
""".split()

VERBS = """
found lost carried opened closed painted repaired moved washed borrowed bought sold dropped lifted followed watched
noticed cleaned pushed pulled kept hid brought took showed measured drew described remembered forgot wanted needed liked
admired touched counted wrapped folded tied cut built broke fixed checked tested sent ordered collected returned
""".split()

ADVERBS = """
slowly quickly quietly carefully gently suddenly finally again often always never early late together alone twice today
yesterday tomorrow outside inside soon proudly secretly calmly
""".split()

TIMES = [
    "in the morning", "at noon", "in the evening", "after lunch", "before sunset", "on Monday", "last week", "every day",
    "during the storm", "at midnight", "in spring", "all summer", "one day", "on a rainy Tuesday", "after the meeting",
    "in the winter", "for three hours", "just before dawn", "at the end of the year", "once a month",
]  # fmt: skip

MONTHS = [
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
]  # fmt: skip

DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]

COLORS = "red blue green yellow white black brown gray orange purple pink silver".split()

JOBS = """
teacher baker doctor farmer engineer painter sailor writer nurse pilot gardener carpenter driver cook singer librarian
lawyer builder tailor student programmer scientist captain clerk manager plumber electrician dentist surgeon judge
barber waiter butcher florist potter painter actor dancer chemist geologist beekeeper locksmith translator editor reporter
fisherman shepherd miner firefighter mechanic architect accountant cashier coach referee inventor poet
""".split()

RELATIVES = """
mother father sister brother aunt uncle cousin grandmother grandfather neighbor friend daughter son niece nephew wife husband
roommate colleague boss teacher landlord
""".split()

PAIRS = """
buy/bought sell/sold find/found lose/lost paint/painted repair/repaired wash/washed borrow/borrowed carry/carried break/broke
build/built draw/drew bring/brought take/took keep/kept hide/hid clean/cleaned order/ordered collect/collected open/opened
drop/dropped fix/fixed make/made choose/chose steal/stole send/sent burn/burned bury/buried count/counted move/moved
pack/packed see/saw want/wanted need/needed forget/forgot pick/picked test/tested move/moved wrap/wrapped measure/measured
photograph/photographed rent/rented catch/caught cut/cut throw/threw hang/hung design/designed polish/polished sew/sewed
win/won leave/left return/returned plant/planted decorate/decorated pull/pulled push/pushed hold/held describe/described
""".split()
"""Verbs that take a thing, in the present and in the past."""

IDENTIFIERS = """
count total index value result name items data size length key line text path score buffer token cache step limit offset
width height user order price rate message node parent child left right start end first last word number flag state
config output input table row column
""".split()

# About the thousand words that everyday English is made of; they give the tokenizer whole-word pieces for text that no
# generator here would write, and the copy tasks material that follows no template.
COMMON = """
the of and to a in is you that it he was for on are as with his they at be this have from or one had by but not what all
were we when your can said there use an each which she do how their if will up other about out many then them these so
some her would make like him into time has look two more write go see number no way could people my than first water
been call who its now find long down day did get come made may part over new sound take only little work know place year
live me back give most very after thing our just name good sentence man think say great where help through much before
line right too mean old any same tell boy follow came want show also around form three small set put end does another
well large must big even such because turn here why ask went men read need land different home us move try kind hand
picture again change off play spell air away animal house point page letter mother answer found study still learn should
world high every near add food between own below country plant last school father keep tree never start city earth eye
light thought head under story saw left few while along might close something seem next hard open example begin life
always those both paper together got group often run important until children side feet car mile night walk white sea
began grow took river four carry state once book hear stop without second later miss idea enough eat face watch far
really almost let above girl sometimes mountain cut young talk soon list song being leave family body music color stand
sun question fish area mark dog horse bird problem complete room knew since ever piece told usually friend easy heard
order red door sure become top ship across today during short better best however low hour black product happen whole
measure remember early wave reach listen wind rock space cover fast several hold himself toward five step morning pass
vowel true hundred against pattern numeral table north slow money map farm pull draw voice seen cold cry plan notice
south sing war ground fall king town unit figure certain field travel wood fire upon done english road half ten fly gave
box finally wait correct quick person became shown minute strong verb star front feel fact inch street decide contain
course surface produce building ocean class note nothing rest careful scientist inside wheel stay green known island
week less machine base ago stood plane system behind ran round boat game force bring understand warm common explain dry
though language shape deep thousand yes clear equation yet government fill heat full hot check object rule among noun
power cannot able six size dark ball material special heavy fine pair circle include built matter square perhaps bill
felt suddenly test direction center farmer ready anything divide general energy subject region believe exercise develop
window difference distance heart sit sum summer wall forest probably leg sat main winter wide written length reason kept
interest arm brother race present beautiful store job edge past sign record finish discover wild happy beside gone sky
glass million west lay weather root instrument meet third month paragraph raise represent soft whether clothes flower
shall teacher held describe drive cross speak solve appear metal son either ice sleep village factor result jump snow
ride care floor hill push baby buy century outside everything tall already instead phrase soil bed copy free hope spring
case laugh nation quite type themselves temperature bright lead everyone method section lake consonant dictionary hair
age amount scale pound although per broken moment tiny possible gold milk quiet natural lot stone act middle speed count
cat someone sail roll bear wonder smile angle fraction melody bottom trip hole poor fight surprise french dead exactly
remain finger industry value wish sense glad visit guest soup report engine position entire fruit rich dollar send sight
chief process press office student control practice separate difficult doctor please protect crop modern element hit
corner party supply whose locate ring character insect caught period indicate radio spoke atom human history effect
electric expect bone rail imagine provide agree thus gentle woman captain guess necessary sharp wing create neighbor
wash bat rather crowd corn compare poem string bell depend meat rub tube famous stream fear thin triangle planet hurry
colony clock mine tie enter major fresh search yellow gun allow print dead spot desert suit current lift rose continue
block chart hat sell success company subtract event particular deal swim term opposite wife shoe shoulder spread arrange
camp invent cotton born determine quart nine truck noise level chance gather shop stretch throw shine property column
molecule select wrong gray repeat require broad prepare salt nose plural anger claim continent oxygen sugar death pretty
skill season solution magnet silver thank branch match suffix especially afraid huge sister steel discuss forward similar
guide experience score apple bought led pitch coat mass card band rope slip win dream evening condition feed tool total
basic smell valley nor double seat arrive master track parent shore division sheet substance favor connect post spend
chord fat original share station dad bread charge proper bar offer segment duck instant market degree populate chick
dear enemy reply drink occur support speech nature range steam motion path liquid log meant quotient teeth shell neck
model memory computer network code file error server client version release install update command option output input
software hardware keyboard screen window terminal program function variable return false none import class print
data graph layer train loss token cache batch weight prompt answer draft verify accept reject decode sample
""".split()
