"""The sentences of passages, each with the questions that it answers.

Patterns are those of `draw.parsed`; words that a question repeats are fields (`passages.fields`), so that both sides agree.
"""

_ROWS = """
{who} {past} {thing} in the {place} {when}.|{when}, {who} {past} {thing} in the {place}.
    who {past} {thing}?|what did {s} {base}( {when}|)?|what happened {when}?|what about the {noun}?|did {s} {base} {thing}?|
    (what|which thing) was it that {s} {past}?|where did {s} {base} (the {noun}|{thing})?|
    when did {s} {base} (the {noun}|{thing})?|(where|when) was that with the {noun}?

{who} {past} {thing} because {reason}.|because {reason}, {who} {past} {thing}.
    who {past} {thing}?|what did {s} {base}?|why did {s} {base} (the {noun}|{thing})?|
    for what reason did {s} {base} the {noun}?|how come {s} {past} {thing}?

{who} {past} {n} {noun}s {when}.|{when}, {who} {past} {n} {noun}s.
    how many {noun}s did {s} {base}?|who {past} (the|{n}) {noun}s?|when did {s} {base} the {noun}s?|
    what did {s} {base} {when}?

{who} and {who2} {past} {thing} {when}.|{who} {past} {thing} with {who2} {when}.
    who {past} {thing}?|what did {s} {base}( {when}|)?|what happened {when}?|what about the {noun}?|did {s} {base} {thing}?|
    (what|which thing) was it that {s} {past}?|who did {s} {base} it with?|who helped {s} with the {noun}?|
    when did {s} and {who2} {base} the {noun}?

{who} is {a_job} from {city}.
    where (is {s} from|does {s} come from)?|what is {s}'s (job|profession)?|what does {s} do( for a living|)?|
    who is from {city}?|which city is {s} from?|who is {s}?|what is {s} by profession?

{who} lives in {city} with {n} {animal}s.|{who} lives with {n} {animal}s in {city}.
    how many {animal}s does {s} have?|where does {s} live?|who lives in {city}?|who lives with {s}?|
    which animals does {s} have?

{who} is {n} years old( and works as {a_job}|).
    how old is {s}?|what is {s}'s age?|what is the age of {s}?|who is {n} years old?

{who} works in the {place} every {day}.|every {day}, {who} works in the {place}.
    where does {s} work?|when does {s} work?|on which day does {s} work?|who works in the {place}?|
    what does {s} do every {day}?

the favorite color of {who2} is {color}.|{who2}'s favorite color is {color}.
    what is (the favorite color of {who2}|{who2}'s favorite color)?|which color does {who2} like( best| most|)?|
    who likes {color}?

the (cafe|bakery|shop|restaurant|market) on {street} Street is (known|famous) for its {adjective} {food}s.
    what is the (place|shop|one) on {street} Street (known|famous) for?|where can (I|you|one) get {food}s?|
    what is {street} Street known for?|which street has good {food}s?

{city} is (known|famous) for (the {made} {place}|its {adjective} {noun}s|{food} soup).
    what is {city} (known|famous) for?|why do people know {city}?|what makes {city} (famous|special)?

the {place} opens at {hour} and closes at {hour2}.|the {place} is open from {hour} to {hour2}.
    when does the {place} (open|close)?|what time does the {place} (open|close)?|until when is the {place} open?|
    from when to when is the {place} open?|how long is the {place} open?

the {noun} costs {price}.|a {noun} is {price} here.|(you|we) pay {price} for the {noun}.
    how much (is|does) the {noun}( cost|)?|what does the {noun} cost?|what is the price of the {noun}?|
    how expensive is the {noun}?

a ticket (for|to) the {place} costs {price}, and children pay {price2}.
    how much is a ticket (for|to) the {place}?|what do children pay?|what does a ticket cost?|how much do children pay?

the (train|bus|ferry) to {city} leaves at {time} from (platform|gate|stop) {n2}.
    when does (the one|it) to {city} leave?|what time (do we|does it) leave for {city}?|
    where does the one to {city} leave( from|)?|what leaves at {time}?|how do I get to {city}?|
    from (which|what) (platform|gate|stop) do we leave for {city}?

the {noun} is (under|behind|in|on|next to|above|beside) the {noun2}.|(you|we) find the {noun} (under|behind|in) the {noun2}.
    where is the {noun}?|where can I find the {noun}?|where did (they|we) put the {noun}?|what is with the {noun2}?

{who} keeps the {noun} in a {color} {noun2}.
    where does {s} keep the {noun}?|what does {s} keep in the {noun2}?|who keeps the {noun}?|what is in the {color} {noun2}?

the {place} was built in {year} by {who2}.|{who2} built the {place} in {year}.
    when was the {place} built?|who built the {place}?|in (which|what) year was the {place} built?|how old is the {place}?

{who} was born in {city} in {year}.|{who} was born in {year} and grew up in {city}.
    when was {s} born?|where was {s} born?|in which (year|city) was {s} born?|who was born in {year}?|who is from {city}?

the (meeting|lesson|exam|concert|party|wedding|game) (starts|is|begins) at {time} in the {place}.
    when does it (start|begin)?|what time is it in the {place}?|where is it?|what happens at {time}?|
    what is in the {place} at {time}?|what time do we have to be in the {place}?

the (meeting|lesson|exam|concert|party|wedding|game) was moved to {day} because {reason}.
    why was it moved?|when is it now?|to which day was it moved?|what is on {day}?

{n2} (people|guests|children|visitors) came to the {made} {event} {when}.
    how many (people|visitors|guests) came( to the {made} {event}|)?|when was the {made} {event}?|how many were at {made}?

{who} has {n} {animal}s and {n2} {animal2}s.
    how many {animal}s does {s} have?|how many {animal2}s does {s} have?|what (pets|animals) does {s} have?|
    who has {animal}s?

{who} is allergic to {food}s.|{who} (cannot stand|never eats|hates) {food}s.|{who} (loves|eats a lot of) {food}s.
    what (about|is it with) {s} and {food}s?|what does {s} (eat|like|hate|not eat)?|
    who (eats|likes|hates|does not eat) {food}s?|can {s} eat {food}s?|is {s} allergic to anything?

{who} was late because {reason}.|because {reason}, {who} (came|was) late.
    why was {s} late?|who was late?|why did {s} come late?|was {s} on time?

{who} could not {base} the {noun} because {reason}.
    why could {s} not {base} the {noun}?|what could {s} not {base}?|who could not {base} the {noun}?|
    did {s} {base} the {noun}?

{who} went to {city} by (train|bus|bike|car|boat|plane) {when}.|{when}, {who} (travelled|drove|flew|went) to {city}.
    how did {s} get to {city}?|where did {s} go( {when}|)?|when did {s} go to {city}?|who went to {city}?|
    how did {s} travel?

{who} is married to {who2}.|{who} shares a flat with {who2}.|{who} sits next to {who2}.
    who is {s} (married to|with)?|who does {s} live with?|who is with {who2}?|what do {s} and {who2} share?

{who2} has a {animal} called {made}.|the {animal} of {who2} is called {made}.
    what is {who2}'s {animal} called?|what is the name of {who2}'s {animal}?|(what pet|which animal) does {who2} have?|
    who has a {animal}?|who is {made}?|what is the {animal}'s name?

the (code|password|number) (for|of) the {place} is {code}.
    what is the (code|password|number) (for|of) the {place}?|how do I get into the {place}?|
    what do I (type|need) at the {place}?

the {noun} (weighs|is) {n2} (kilos|pounds|tons)( and is very {adjective}|).
    how heavy is the {noun}?|how much does the {noun} weigh?|what does the {noun} weigh?|what is the weight of the {noun}?

the {noun} (is|was) {color} and {adjective}.
    what color (is|was) the {noun}?|what (is|was) the {noun} like?|how did the {noun} look?

the {place} is {n2} (kilometers|miles|minutes|steps) from the {place2}.
    how far is the {place} from the {place2}?|how far is it from the {place} to the {place2}?|how far away is the {place}?

the soup is made of {food}s, {food2}s and {food3}.|{who} made a soup with {food}s, {food2}s and {food3}.
    what is the soup made of?|what is in the soup?|which ingredients does the soup have?|is there {food3} in the soup?

{who} (sold|gave|lent|sent|showed) {thing} to {who2}( for {price}|).
    who (got|has|bought) the {noun}?|who did {s} (sell|give|lend|send|show) the {noun} to?|
    what did {s} (sell|give|lend|send|show) (to |){who2}?|what did {who2} get?|from whom did {who2} get the {noun}?

{who} paid {price} for {thing}.
    how much did {s} pay( for the {noun}|)?|what did {s} pay for the {noun}?|what did {s} buy?|who paid {price}?|
    how much was the {noun}?

{who} plays the (piano|drums|flute|violin|guitar) in a band called {made}.
    what does {s} play?|which instrument does {s} play?|what is the (name of the band|band called)?|who plays in {made}?

the book (about|with) the {animal} was written by {who2}.|{who2} wrote a book about {animal}s.
    who wrote the book?|what is the book about?|who wrote about {animal}s?|what did {who2} write( about|)?

the {made} {event} was cancelled because {reason}.
    why was (it|the {made} {event}) cancelled?|what was cancelled?|did the {made} {event} take place?

{who} wants to become {a_job}.|{who} is learning to be {a_job}.
    what does {s} want to (be|become)?|who wants to (be|become) {a_job}?|what is {s}'s plan?|what is {s} learning?

{who} moved from {city} to {city2} in {year}.|in {year}, {who} moved from {city} to {city2}.
    where did {s} move( to|)?|when did {s} move?|where did {s} live before?|from where did {s} move?|who moved to {city2}?

the {noun} broke {when} because {reason}.|because {reason}, the {noun} broke.
    why did the {noun} break?|what broke?|what happened to the {noun}?|what is wrong with the {noun}?

{who} goes (swimming|running|dancing|fishing|shopping) every {day}( evening| morning|).
    when does {s} go?|what does {s} do (every {day}|on {day}s)?|on which day does {s} go?|how often does {s} go?|
    who goes every {day}?

there are {n} {noun}s in the {place}.|the {place} has {n} {noun}s.|in the {place} you find {n} {noun}s.
    how many {noun}s are (there|) in the {place}?|what is in the {place}?|where are the {noun}s?|
    how many {noun}s does the {place} have?

dinner is at {time}, and {who2} will cook {food} (soup|pie|rice|pasta).
    when is dinner?|who (cooks|will cook)?|what is for dinner?|what will {who2} cook?|what time do we eat?

the (bus|ferry|tram|boat) runs every {n2} minutes until {hour}.
    how often does it (run|come|go)?|until when does it run?|when is the last one?

{who} found the {noun} (under|behind|in|near) the {noun2} after {n} (days|hours|weeks).
    where was the {noun}?|where did {s} find the {noun}?|who found the {noun}?|how long did it take( to find the {noun}|)?

{who} called {who2} at {time} because {reason}.
    who called {who2}?|why did {s} call?|when did {s} call( {who2}|)?|who did {s} call?|what time did {s} call?

the {color} {noun} belongs to {who2}.|the {color} {noun} is {who2}'s.
    (whose is|who owns|who has) the {color} {noun}?|whose {noun} is it?|what belongs to {who2}?|
    who does the {noun} belong to?

{who} speaks {made} and a little {made2}.
    which languages does {s} speak?|what does {s} speak?|who speaks {made}?

{made} is a {adjective} (town|village|island|river|mountain|dish|dance|game) (in|near) {city}.
    what is {made}?|where is {made}?|what do we know about {made}?|what kind of thing is {made}?

the {made} (company|team|club|school) was (founded|started) in {year} by {who2} and has {n2} members.
    who (founded|started) {made}?|when was {made} (founded|started)?|how many members does {made} have?|
    what did {who2} (found|start)?

remember to {base} the {noun} before {day}.|please {base} the {noun} before {day}.
    what should I {base}?|until when should I {base} the {noun}?|what do I have to do before {day}?|what should I remember?
"""

HAPPENINGS: list[tuple[str, str]] = [
    (statement, questions) for statement, questions in (row.split("\n    ", 1) for row in _ROWS.strip().split("\n\n"))
]
"""Sentences and questions; the same grammar serves every kind of everyday text."""
