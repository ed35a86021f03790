"""Sums that are few enough to learn, counting, and numbers that are too large."""

from ..draw import Draw, Message, exchange
from ..wording import ask

TOO_LARGE = "Sorry, I can only calculate with small numbers."

_WORDS = "zero one two three four five six seven eight nine ten eleven twelve".split()

_SUM = """
what is {a} {s} {b}?|what is {a} {s} {b}?|what's {a}{t}{b}?|how much is {a} {s} {b}?|={a} {t} {b}|={a} {t} {b} =|
={a}{t}{b}|={a}{t}{b}=|={a} {s} {b}|={a} {s} {b} (is|equals|makes)|
(calculate|compute|work out|solve|add up|evaluate) {a} {t} {b}|
(tell me|find|say|give me) (what {a} {s} {b} is|the (result|answer) of {a} {t} {b})|do you know what {a} {s} {b} is?|
what does {a} {s} {b} (make|give|equal|come to)?|what do you get for {a} {t} {b}?"""
_SPECIAL = {
    "+": """
        (what is|find|calculate) the sum of {a} and {b}|add {a} and {b}|
        I have {a} apples and get {b} more. how many (apples|) is that?""",
    "-": """
        (take|subtract) {b} (away|) from {a}|={a} minus {b}|I have {a} coins and lose {b}. how many are left?|
        ={a} take away {b}""",
    "*": "multiply {a} (by|with|and) {b}|(what is|find) the product of {a} and {b}",
    "/": "divide {a} by {b}|(what is|find) {a} over {b}|split {a} into {b} parts",
}
_SIGNS = {"+": (["+"], ["plus", "+", "and"]), "-": (["-"], ["minus", "-"]),
          "*": (["*", "x", "×"], ["times", "*", "multiplied by", "x"]),
          "/": (["/", ":", "÷"], ["divided by", "/", "by"])}  # fmt: skip


def _worded(d: Draw, operation: str, a: str, b: str) -> str:
    signs, spoken = _SIGNS[operation]
    pattern = _SPECIAL[operation] if d.chance(0.12) else _SUM
    return ask(d, pattern, a=a, b=b, t=d.pick(signs), s=d.pick(spoken), opened=0.06)


def arithmetic(d: Draw) -> list[Message]:
    """Calculate sums and differences up to 20, two digits plus or minus one, or the multiplication table."""
    operation = d.pick(["+", "+", "-", "*"])
    if operation == "*" or d.chance(0.6):
        a, b = d.number(0, 12), d.number(0, 12)
    else:
        a, b = d.number(10, 90), d.number(1, 9)
    if operation == "-" and b > a:
        a, b = b, a
    result = {"+": a + b, "-": a - b, "*": a * b}[operation]
    spelled = max(a, b) <= 12 and d.chance(0.15)
    question = _worded(d, operation, *([_WORDS[a], _WORDS[b]] if spelled else [str(a), str(b)]))
    return exchange(question, f"{a} {operation} {b} = {result}")


def large_numbers(d: Draw) -> list[Message]:
    """Ask for a sum that the model does not know."""
    a, b = d.number(13, 10 ** d.number(2, 5)), d.number(13, 10 ** d.number(2, 4))
    operation = d.pick(["*", "*", "*", "/", "/", "+", "-"])
    if operation in "+-":
        a, b = a + 100, b + 10
    elif operation == "*" and d.chance(0.4):
        b = d.number(2, 9)
    return exchange(_worded(d, operation, str(a), str(b)), TOO_LARGE)


_NTH = {2: "2nd", 3: "3rd", 5: "5th", 10: "10th"}

_COUNT = """
count from {start} to {stop}|
(list|write|say|print|give me|show me) (all|) the numbers from {start} (to|up to|until) {stop}|
=(count|numbers) {start} to {stop}|(start at {start} and count|count) (up|on) to {stop}|=numbers from {start} to {stop}"""
_STEPS = """
count from {start} to {stop} (in steps of|by|in) {step}|count by {step} from {start} to {stop}|
(list|write|say|print) every {nth} number from {start} to {stop}|=numbers from {start} to {stop} in steps of {step}"""
_DOWN = """
count (down|backwards|back) from {start} to {stop}|(list|write|say) the numbers from {start} down to {stop}|
(do|give me|start|I want) a countdown from {start} to {stop}|countdown from {start} to {stop}"""
_FROM_ONE = "(count|count up) to {stop}|(list|write|say|print) the (first {stop} numbers|numbers up to {stop})"


def count_up(d: Draw) -> list[Message]:
    """Count from one number to another, up or down."""
    start, step, pattern = d.pick([0, 1, 1, 1, 1, d.number(2, 30)]), 1, _COUNT
    kind = d.number(0, 9)
    if kind < 2:
        start, step, pattern = 0, d.pick([2, 5, 10, 3]), _STEPS
    stop = start + step * d.span(3, 12)
    numbers = list(range(start, stop + 1, step))
    if kind > 7:
        numbers, pattern = numbers[::-1], _DOWN
        start, stop = stop, start
    elif start == 1 and d.chance(0.4):
        pattern = _FROM_ONE
    question = ask(d, pattern, start=str(start), stop=str(stop), step=str(step), nth=_NTH.get(step, ""))
    return exchange(question, ", ".join(map(str, numbers)))
