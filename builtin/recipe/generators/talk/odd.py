"""Messages that are not requests: other languages, emoji and noise, and texts without a word about them."""

from .. import words
from ..draw import Draw, Message, emoji, exchange
from ..passages import lines
from ..sentences import sentence, sentences
from ..stories import story
from ..tasks.copying import code_text
from .outside import STRANGE
from .small_talk import SMALL_TALK_WORDS

ENGLISH_ONLY = "I only know English. Ask me in English about decoding methods, or give me an English text to copy or edit."
UNCLEAR = "I am not sure what you mean. Ask me about decoding methods, or give me a text to copy or edit."
PASTED = "What should I do with this text? I can repeat it, change it, or answer a question about it."

_LATIN = """
hallo wie geht es dir heute ich bin du bist er sie wir und oder nicht was ist das kannst mir bitte helfen erzähl eine geschichte
guten morgen abend tag nacht danke schön wer wo warum wann schreib ein gedicht über liebe hauptstadt von deutschland erkläre|
bonjour salut comment ça va je suis tu es il elle nous vous et ou pas qu'est-ce que c'est peux m'aider s'il te plaît raconte une
histoire bonsoir merci beaucoup qui où pourquoi quand écris un poème sur l'amour quelle est la capitale de la france explique
moi|
hola buenos días noches cómo estás yo soy tú eres él ella nosotros y o no qué es esto puedes ayudarme por favor cuéntame una
historia gracias quién dónde por cuándo escribe un poema sobre el amor cuál es la capital de españa explícame hacer quiero|
ciao buongiorno buonasera come stai io sono tu sei lui lei noi e o non che cosa è questo puoi aiutarmi per favore raccontami una
storia grazie mille chi dove perché quando scrivi una poesia su amore qual è la capitale dell'italia spiegami vorrei|
olá bom dia boa noite como você está eu sou tu és ele ela nós e ou não o que é isso pode me ajudar por favor conte uma história
obrigado obrigada quem onde porque quando escreva um poema sobre o amor qual é a capital do brasil explique quero|
hallo goedemorgen goedenavond hoe gaat het met je ik ben jij bent hij zij wij en of niet wat is dit kun je mij helpen
alsjeblieft vertel een verhaal dank je wel wie waar waarom wanneer schrijf een gedicht over liefde hoofdstad van nederland leg
uit|
hej hur mår du jag är han hon vi och eller inte vad är det här kan du hjälpa mig snälla berätta en saga tack så mycket vem var
varför när skriv en dikt om kärlek huvudstad i sverige god morgon kväll förklara|
hei hvordan har du det jeg er du han hun vi og eller ikke hva er dette kan du hjelpe meg fortell en historie takk hvem hvor
hvorfor når skriv et dikt om kjærlighet god morgen goddag hvad hedder du forklar|
hei miten menee minä olen sinä olet hän me ja tai ei mikä tämä on voitko auttaa minua kerro tarina kiitos paljon kuka missä
miksi milloin kirjoita runo rakkaudesta hyvää huomenta iltaa selitä|
cześć jak się masz ja jestem ty jesteś on ona my i lub nie co to jest czy możesz mi pomóc proszę opowiedz historię dziękuję kto
gdzie dlaczego kiedy napisz wiersz o miłości stolica polski dzień dobry wieczór wyjaśnij|
ahoj jak se máš já jsem ty jsi on ona my a nebo ne co je to můžeš mi pomoct prosím vyprávěj příběh děkuji kdo kde proč kdy napiš
báseň o lásce dobrý den večer hlavní město vysvětli|
szia hogy vagy én vagyok te ő mi és vagy nem mi ez tudsz segíteni kérlek mesélj egy történetet köszönöm ki hol miért mikor írj
egy verset a szerelemről jó reggelt estét magyarázd el|
merhaba nasılsın ben sen o biz ve veya değil bu nedir bana yardım edebilir misin lütfen bir hikaye anlat teşekkürler kim nerede
neden ne zaman aşk hakkında şiir yaz günaydın iyi akşamlar başkenti açıkla|
halo apa kabar saya kamu dia kami dan atau tidak apa ini bisakah membantu tolong ceritakan sebuah cerita terima kasih siapa di
mana mengapa kapan tulis puisi tentang cinta selamat pagi malam ibu kota jelaskan|
xin chào bạn khỏe không tôi là anh ấy cô chúng và hoặc không đây là gì giúp được kể một câu chuyện cảm ơn ai ở đâu tại sao khi
nào viết bài thơ về tình yêu chào buổi sáng thủ đô giải thích|
bună ce mai faci eu sunt tu ești el ea noi și sau nu ce este asta poți să mă ajuți te rog spune o poveste mulțumesc cine unde
de ce când scrie o poezie despre dragoste bună dimineața capitala explică|
habari yako mimi ni wewe yeye sisi na au hapana hii ni nini unaweza kunisaidia tafadhali niambie hadithi asante nani wapi kwa
nini lini andika shairi kuhusu upendo habari za asubuhi mji mkuu eleza|
salve quid agis ego sum tu es ille illa nos et aut non quid est hoc potesne me adiuvare quaeso narra fabulam gratias quis ubi
cur quando scribe carmen de amore bonum diem caput mundi
""".replace("\n", " ").split("|")
"""Words of one language each, as in people's first questions."""

_GREETINGS = """
Hallo!|Guten Tag|Guten Morgen|Wie geht's?|Wer bist du?|Was kannst du?|Was ist das?|Hilfe|Danke|Sprichst du Deutsch?|Grüß Gott|
Bonjour|Salut !|Ça va ?|Qui es-tu ?|Que peux-tu faire ?|Aidez-moi|Merci|Parlez-vous français ?|Hola|¡Hola!|¿Cómo estás?|
¿Quién eres?|¿Qué es esto?|Ayuda|Gracias|¿Hablas español?|Buenos días|Ciao|Come stai?|Chi sei?|Che cosa sai fare?|Aiuto|Grazie|
Parli italiano?|Olá|Oi, tudo bem?|Quem é você?|Obrigado|Você fala português?|Hoi|Hoe gaat het?|Wie ben je?|Dank je|Hej|Tack|
Hvordan går det?|Tak|Moi|Kiitos|Cześć|Dziękuję|Kim jesteś?|Ahoj|Děkuji|Merhaba|Nasılsın?|Teşekkürler|Szia|Köszönöm|Halo|
Apa kabar?|Terima kasih|Xin chào|Cảm ơn|Bună|Mulțumesc|Habari|Asante|Salve|Привет|Как дела?|Кто ты?|Спасибо|Что ты умеешь?|
Здравствуйте|Привіт|Дякую|Γειά σου|Τι κάνεις;|Ευχαριστώ|こんにちは|ありがとう|お元気ですか|あなたは誰ですか|おはよう|
안녕하세요|감사합니다|너는 누구니?|你是谁|谢谢|你会做什么？|你好吗？|早上好|您好|مرحبا|كيف حالك؟|من أنت؟|شكرا|שלום|מה שלומך?|
תודה|नमस्ते|आप कैसे हैं?|धन्यवाद|สวัสดี|ขอบคุณ|سلام|ধন্যবাদ|வணக்கம்
""".replace("\n", "").split("|")

_SCRIPTS = [
    (0x4E00, 0x9FA5), (0x4E00, 0x9FA5), (0x3041, 0x3096), (0x30A1, 0x30FA), (0xAC00, 0xD7A3), (0x0410, 0x044F),
    (0x0430, 0x044F), (0x03B1, 0x03C9), (0x05D0, 0x05EA), (0x0627, 0x064A), (0x0905, 0x0939), (0x0E01, 0x0E2E),
    (0x0985, 0x09B9), (0x10D0, 0x10F0), (0x0561, 0x0586), (0x0B85, 0x0BB9),
]  # fmt: skip
"""First and last code points of scripts other than Latin."""


def _script(d: Draw, most: int) -> str:
    low, high = d.pick(_SCRIPTS)
    spaced = low < 0x3000
    parts = []
    for _ in range(d.span(1, most)):
        size = d.number(2, 8) if spaced else d.number(1, 9)
        parts.append("".join(chr(d.number(low, high)) for _ in range(size)))
    return (" " if spaced or low == 0xAC00 else d.pick(["", "，", "、"])).join(parts) + d.pick(
        ["", "", "?", "。", "？", "!", "."]
    )


def foreign(d: Draw) -> list[Message]:
    """Say something in another language."""
    match d.number(0, 9):
        case 0 | 1 | 2:
            text = d.pick(_GREETINGS)
        case 3 | 4 | 5 | 6:
            chosen = d.pick(_LATIN).split()
            # In the order above, or in any order: the words show the language, not the sentence.
            first = d.number(0, len(chosen) - 1)
            run = chosen[first : first + d.number(2, 8)]
            text = " ".join(run if d.chance(0.5) else [d.pick(chosen) for _ in range(d.number(3, 12))])
            text = (text[0].upper() + text[1:] if d.chance(0.6) else text) + d.pick(["", "", "?", "?", ".", "!"])
        case _:
            text = _script(d, 12)
    return exchange(text, ENGLISH_ONLY)


_MARKS = "? ! . ... ?? ??? !!! - -- _ / \\ ' \" * # % & @ ~ | $ ( ) [] {} <> : ; , = + ^ ` ``` :) ;) :( :D <3 ^^ xD".split()
_KEYS = "asdfghjkl qwertyuiop zxcvbnm asdf jkl abcdefghijklmnopqrstuvwxyz 0123456789 qwe123 aeiou".split()
_CHARACTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_CONTROLS = "\x00 \x07 \x1b[31m \x1b \u200b \u202e \ufeff \t \r\n <|end|> <|user|> \x7f \ufffd".split(" ")


def noise(d: Draw) -> list[Message]:
    """Type emoji, marks, random keys, single characters, made-up words, or control characters."""
    match d.number(0, 7):
        case 0 | 1:
            text = emoji(d) * d.number(2, 12) if d.chance(0.3) else "".join(emoji(d) for _ in range(d.number(1, 6)))
        case 2:
            text = d.pick(_MARKS) * (d.number(1, 30) if d.chance(0.2) else 1)
        case 3 | 4:
            keys = d.pick(_KEYS)
            text = "".join(d.pick(keys) for _ in range(d.span(2, 40)))
        case 5:
            text = d.pick(_CHARACTERS) * d.pick([1, 1, 2, d.number(3, 40)])
        case 6:
            text = d.pick(STRANGE) if d.chance(0.4) else " ".join(d.made_up() for _ in range(d.number(1, 6)))
        case _:
            text = "".join(d.pick([d.pick(words.COMMON), *_CONTROLS]) for _ in range(d.number(1, 8)))
    return noise(d) if text.lower() in SMALL_TALK_WORDS else exchange(text, UNCLEAR)


def pasted(d: Draw) -> list[Message]:
    """Paste a text, code, a list or a table, without a word about it."""
    match d.number(0, 9):
        case 0 | 1:
            count = d.span(2, 60)
            text = sentences(d, count) if d.chance(0.5) else " ".join(fact.text for fact in lines(d, min(count, 8)))
        case 2:
            text = "\n\n".join(sentences(d, d.number(2, 4)) for _ in range(d.span(2, 10)))
        case 3:
            text = "\n".join(code_text(d) for _ in range(d.span(1, 8)))
        case 4:
            text = "\n".join(f"{name}: {d.number(1, 999)}" for name in d.some(words.OBJECTS, d.span(3, 40)))
        case 5:
            text = "\n".join(f"- {d.noun_phrase()}" for _ in range(d.span(3, 40)))
        case 6:
            rows = ",\n".join(f'  {{"name": "{d.first_name()}", "age": {d.number(1, 99)}}}' for _ in range(d.span(1, 25)))
            text = f"[\n{rows}\n]"
        case 7:
            text = d.pick([" ", "\n", "\n\n"]).join(d.made_up() for _ in range(d.span(20, 250)))
        case 8:
            unit = d.pick([sentence(d) + " ", d.noun() + " ", d.noun() + "\n", emoji(d) + " "])
            text = (unit * d.span(5, 60)).rstrip()
        case _:
            text = story(d)
    # A question at the end would need an answer.
    return pasted(d) if text.endswith("?") else exchange(text, PASTED)
