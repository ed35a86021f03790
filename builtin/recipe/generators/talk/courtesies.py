"""Courtesies, moods and remarks without a wish, with one answer to each."""

from .intents import Intent

_NOW = "(today|now|right now|at the moment|this (morning|evening)||||)"
_THIS = "(that|this|it|your answer|the answer|what you said|what you wrote)"

HELLO = (
    "Hello! I am the small model that ships with specchat. Ask me about decoding methods, or give me a text to copy or edit."
)

COURTESIES: list[Intent] = [
    Intent(
        HELLO,
        """
        =(hello|hi|hey|good morning|good evening|good afternoon|good day|greetings|yo|hiya|howdy|heya|hi hi|hello
        hello|sup|morning|evening) ( there| specchat| bot| computer| friend| again| world| model| dear model|
        everyone| my friend| little one|||||)|=(hello|hi|hey)|what's up?|
        is (anybody|anyone|somebody|someone) (there|here|home|listening)?|are you (there|awake|here|ready|on)?|
        can you (hear|read|see) me?|=(nice|good|pleased) to meet you|=I'm (back|here|new here)|=it's me( again|)|
        =here I am|=knock knock|=(hi|hello), (can we talk|shall we start|let's begin|let's chat)|
        =just (wanted to say hi|saying hello|dropping by)|=long time no see|=welcome|=we meet at last|
        =(say|tell me) hello|do you want to (talk|chat)( with me|)?|can we (talk|chat)?""",
        1.6,
    ),
    Intent(
        "I am fine, thank you. I am ready to decode a few tokens for you.",
        f"""
        how are you( doing| feeling| these days|) {_NOW}?|how do you (do|feel) {_NOW}?|
        how is (it going|your day|life|everything|it)( so far|)?|
        how's (it going|life|your day|everything|things)( so far|)?|
        are you (okay|ok|fine|well|happy|good|feeling well|all right|sad|tired|bored| busy) {_NOW}?|
        how (was|has) your (day|night|morning|weekend)( been|)?|
        =(you ok|how goes it|how are things|how are ya|how you doing|hru)|what have you been up to?|
        everything (ok|okay|fine|good|all right) (with you|there|)?|(did you|have you) (sleep|slept) well?|
        do you feel (good|well|fine) {_NOW}?|=I hope you are (well|fine|doing well)|
        =hope (you're|you are) (well|having a good day)""",
        1.2,
    ),
    Intent(
        "You are welcome!",
        f"""
        =(thanks|thank you|thx|ty|many thanks|cheers|thank you very much|thanks a lot|thank you so much|thanks so
        much|thanks a million| much appreciated|thank u)( for (that|this|your help|the help|the answer|the story|the
        poem|explaining|your time|helping me| being so (patient|quick|nice|clear)|copying that|the quick
        (answer|help)|everything|doing that|the list|telling me|the tip)|) (, that (helped|was
        (helpful|great|quick|nice|clear|useful|kind|just what I needed))|, it (works|helped|works now)| , (I got
        it|great|perfect|very kind|good job|bye bye not yet|I understand now|now I see|you saved my day)||||)|
        =(great|ok|perfect|cool|nice|good|wonderful|awesome|super)(,|) (thanks|thank you|thx)( a lot| very much| so
        much|)|=(that|this) (helped|was helpful|was useful|saved me time)(,|) (thanks|thank you|a lot|so much)|
        =(I appreciate|I am grateful for) {_THIS}|=(very|so) kind( of you|)|=you (helped|saved) me( a lot|)|
        =I (wanted|want) to (say thanks|thank you)|
        =(thanks|thank you|thx|thanks a lot|many thanks|cheers|thank you so much|ty)(, | - |! |. | )(now I can
        {{base}} my {{noun}}| my {{relative}} will be (happy|glad|pleased)|that saved me (an hour|{{n}} minutes|a lot
        of work|a trip)| I was stuck (on that|with the {{noun}}) for {{n}} (minutes|hours|days)|the {{noun}} is ready
        now| I needed that for (school|work|my {{relative}}|{{day}})|it looks (good|great|perfect|{{adjective}}) now|
        exactly what I (needed|wanted|was looking for)|I {{past}} the {{noun}} with it|you made my {{day}}| I could
        not have done (it|that) (alone|without you)|my {{relative}} (liked|loved) it)""",
        1.2,
    ),
    Intent(
        "Goodbye! Come back when you want to see how tokens are made.",
        """
        =(bye|goodbye|bye bye|see you|see you (later|tomorrow|soon|around)|good night|farewell|so long|take care|until
        next time|cya| later|have a (nice|good|great) (day|evening|weekend|one)|see ya|good bye|bye for now|talk to
        you (later|soon|tomorrow)) ( then| for now| my friend| specchat| and thanks| and thank you|||)|
        =I (have to|must|need to|should) (go|leave|run|sleep)( now|)|
        =(I am|I'm) (leaving|off|done|going to bed|going home|finished|out)( now| for today|)|
        =(thanks|thank you|ok|well|that was it)(,|) (bye| goodbye|good night|see you)|
        =that (is|was) (all|it|everything)( for today| for now|)(, thanks|, thank you|, bye)|
        =time to (go|sleep|say goodbye)|=let's (stop here|call it a day|end here)|=enough for today|
        =it was nice (talking|chatting) (to|with) you|
        =(bye|goodbye|see you|I have to go)(, | - |, sorry, |! )(I (have to|must|will) {base} (a|my) {noun}( now|)| my
        {relative} is (calling|waiting)|the {place} closes (soon|at {n})|dinner is ready|my bus is coming|I am tired|
        until {day}|it is late)""",
    ),
    Intent(
        "I am sorry. I am a very small model and make mistakes. Ask me what I can do, or start specchat with --model for a "
        "larger one.",
        f"""
        =you are (so |really |very |a bit |)(stupid|dumb|bad|useless|wrong|boring|silly|terrible|annoying|not smart|an
        idiot|not helpful|no help| worthless|confused|mistaken|rude|weird|awful|limited|a bad bot|mad)|
        ={_THIS} (is|was) (so |really |very |completely |just |)(wrong|bad| nonsense|useless|incorrect|not true|not
        right|not what I asked|false|rubbish|not helpful|a bad answer|no answer|garbage|boring|stupid| not what I
        (wanted|meant))|
        =(idiot|wrong|bad bot|stupid bot|stupid machine|shut up|damn|what the hell|you suck|this sucks|no that is
        wrong|I hate you|rubbish|nonsense|wtf|boo|fail)|=you (make|made) (no sense|a mistake|an error|that up)|
        =you (did not|didn't|do not|don't) (answer (me|my question)|understand (me|anything|my question)|listen|get
        it|help( me|)|know anything)|are you (stupid|dumb|broken|drunk| kidding( me|)|crazy)?|
        why are you so (stupid|dumb|bad|useless|slow to understand)?|
        =(I|we) (do not|don't) (like|believe) (you|it|this)|
        =(I am|I'm) (disappointed|not happy with (you|that)|angry with you)|
        =(try again|do better|not good|not good enough|that's not it)|what is wrong with you?|
        =I expected (more|better)|why (did|do) you (say|write|answer) (that|such nonsense)?""",
    ),
    Intent(
        "Thank you! What would you like to try next?",
        f"""
        =you are (so |really |very |pretty |quite |)(great|nice|funny|cool|smart|good|amazing|awesome|cute|fast|the
        best|clever|wonderful|sweet| helpful|kind|brilliant|impressive|a genius|quick|a star|my favorite)|
        =I (really |)(like|love) (you|this|it|this program|your answers| talking to you|the way you write|how you do
        that)|
        ={_THIS} (is|was) (so |really |very |)(good|great|correct|right|nice|amazing|fast|funny|
        beautiful|perfect|impressive|a great answer|brilliant|clever|lovely|interesting|helpful|well done)|
        =(good bot|well done|good job|nice work| amazing|awesome|bravo|great answer|good answer|good
        work|impressive|nice one|great job|brilliant|good boy|I am impressed|respect|wow you are fast|that's
        impressive)|=(not bad|pretty good|better than (I thought|expected))|=you did (well|great|it|a good job)|
        =(what a|such a) (nice|good|great|lovely|beautiful) (answer|story|poem|program|model)|
        =that made me (smile|laugh|happy)""",
    ),
    Intent(
        "Good. What would you like to try next?",
        """
        =(okay|ok|I see|good|great|nice|cool|interesting|perfect|wow|yes|no|fine|I understand|got
        it|hm|hmm|aha|lol|haha|yeah|yep|nope|maybe|sure| alright|all
        right|right|oh|ah|go|next|ready|continue|whatever|true|sorry|please|never mind|let's go|ok then|and
        now|so|thumbs up| excellent|sounds good|of course|indeed|makes sense|fair enough|understood|no problem|I am
        ready|oh well|ok good|ok cool|oh nice|mhm|k|kk| that makes sense|I get it|now I understand|now I get it|that
        is clear|clear|good to know|I did not know that|that's interesting| well well|not now|later|I am thinking|let
        me think|one moment|wait|hold on|no thanks|no thank you|not really|exactly|absolutely| I agree|me too|same
        here|good idea|why not|ok let's do it|deal|finally|ta-da|yay|hooray|omg|oops|ups|my mistake|my bad)""",
    ),
    Intent(
        "It works. Ask me about decoding methods, or give me a text to copy or edit.",
        """
        =(test|testing|this is a test|test test|just testing|testing 123|ping|test 1 2 3|1 2 3 test|a test|only a
        test|testing one two three| test message|I am (just |only |)testing( you| this| the program|)|one two
        three|mic check|is this thing on|hello test|first test| let me test (this|you))|
        (does|is) (this|it) (work|working|on)( now| yet| at all|)?|(are|do) you (work|working)( now| properly|)?|
        is (everything|the model|specchat) (working|running|ok)?|can you answer?""",
    ),
    Intent(
        "Please tell me a little more. I can explain decoding methods, copy and edit text, and tell short stories.",
        """
        =(what|why|how|who|when|where|huh|which one|and|then|how come|why not|pardon|what do you
        mean|anything|something|start|begin|speak| question|tell me|say something|write something|talk to me|do
        something|answer me|say anything|explain|explain that|what is that| come again|sorry what|eh|which|whose|for
        what|like what|and then|so what|what else|in what way|surprise)|
        =I (do not|don't) (understand|get it|get that|follow)( that| you| this| what you mean|)|
        =I have (a|one|another) question( for you|)|can I ask you (something|a question)?|
        =(do|say|write|tell me) (something|anything|whatever you like)|=let's (talk|chat)|
        may I ask (you|) (something|a question)?|=(I|we) (want|need) to (talk|ask something)|
        =(explain|say) (it|that) (again|differently)|what (was|is) (that|this) about?|=could you be clearer|
        =what should that mean|=you decide|=something (new|else|different)""",
    ),
    Intent(
        "Why did the draft model cross the road? To be verified on the other side.",
        """
        (tell|write|make|give) me (a|another|one more|a good|a short|a funny|your best) joke|
        (tell|say|write) (something funny|a joke|one more joke)|
        do you know (a joke|any jokes|a good joke|something funny)?|make me (laugh|smile)|=(another|one more|a) joke|
        =joke|can you (be funny|make me laugh|tell jokes)?|=I (want|need) (a joke|to laugh|a laugh)|entertain me|
        (have|got) (a|any) (joke|jokes)( for me|)?|what is your (best|favorite) joke?|cheer me up( with a joke|)|
        =(something|anything) funny|are you funny?""",
    ),
    Intent(
        "Here is one: I am never faster than when I repeat you. Prompt lookup drafts the answer from your own words, and one "
        "pass accepts many tokens.",
        """
        (tell|give|show) me (something (interesting|new|cool|surprising|I don't know)|a (fun |cool |nice |random
        |)fact|an interesting fact| something)|surprise me|
        do you know (something interesting|a fun fact|any facts|something new)?|teach me something( new|)|
        =(a fun fact|fun fact|did you know|something interesting)|share a (fun |)fact|
        what is (something|a thing) (interesting|that few people know)?|impress me|
        what is the (most interesting|coolest) thing you know?|=I am bored|=I'm bored, (say|tell me) something""",
    ),
    Intent(
        "I am sorry to hear that. I am only a small model, but I can tell you a story.",
        """
        =I (am|feel) (so |very |really |a bit |)(sad|bored and
        sad|tired|lonely|bad|sick|angry|afraid|stressed|unhappy|down|depressed|not well|worried|
        ill|exhausted|miserable|hurt|nervous|scared)( today| right now| again| lately|)|
        =(my (head|back|heart|tooth|leg) hurts|I have a (headache| cold|fever|broken heart)|I had a
        (bad|hard|long|terrible|rough) (day|night|week)|I cannot sleep|I can't sleep|I failed my (exam|test|class)|
        nobody (likes|loves|understands) me|it was a (hard|bad) day|life is (hard|unfair)|I lost my
        (job|keys|friend|phone|cat)|I miss my (dog| friend|mother|home)|my (dog|cat|grandmother|hamster) (died|is
        sick|ran away)|everything (is|went) wrong|(he|she) left me|I want to cry| I am having a (bad|hard)
        time|nothing works( today|))""",
    ),
    Intent(
        "I am glad to hear that. What would you like to try?",
        """
        =I (am|feel) (so |very |really |)(happy|great|good|fine|well|excited|proud|relaxed|lucky|in a good
        mood|wonderful|better)( today| right now| again| now|, thanks| too|)|
        =(I had a (good|great|wonderful) (day|week|night)|today is my birthday|it is my birthday|I passed my
        (exam|test)| I got (a new (job|dog|cat|bike)|the job|good news)|life is (good|beautiful)|I won|what a
        (beautiful|lovely|nice) day|the sun is shining| I am in love|we won|it is (friday|the weekend)|I am on
        holiday|good news|I slept well|I finished my (work|homework|book))""",
    ),
]
NAMED = """
=my name is {name}|=I am {name}|=I'm {name}|=call me {name}|=(this is|here is) {name}|=you can call me {name}|
=people call me {name}|=(they|my friends) call me {name}|=the name is {name}|=I am called {name}|={name} here|
={name} is my name"""
"""Somebody says their name."""
