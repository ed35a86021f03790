"""Notations: thousands, dates, percentages, and Markdown around words."""

from . import words
from .draw import Draw, Message, exchange


def number_format(d: Draw) -> list[Message]:
    """Write a number or a date in another notation."""
    match d.number(0, 3):
        case 0:
            value = d.number(1000, 10 ** d.number(4, 7))
            ask = ["Write {} with thousands separators", "Put commas into {}", "Format {} with commas"]
            return exchange(d.pick(ask).format(value) + d.pick(["", "."]), f"{value:,}")
        case 1:
            value = d.number(1000, 10 ** d.number(4, 7))
            ask = ["Write {} without commas", "Remove the commas from {}", "Write {} as a plain number"]
            return exchange(d.pick(ask).format(f"{value:,}") + d.pick(["", "."]), str(value))
        case 2:
            day, month, year = d.number(1, 28), d.number(1, 12), d.number(1950, 2039)
            name = words.MONTHS[month - 1]
            text = d.pick([f"{day} {name} {year}", f"{name} {day}, {year}"])
            ask = ["Write {} as an ISO date", "Convert {} to ISO format", "Write the date {} as YYYY-MM-DD"]
            return exchange(d.pick(ask).format(text) + d.pick(["", "."]), f"{year}-{month:02d}-{day:02d}")
        case _:
            day, month, year = d.number(1, 28), d.number(1, 12), d.number(1950, 2039)
            ask = ["Write {} with the name of the month", "Write the date {} in words", "Spell out the month in {}"]
            text = f"{year}-{month:02d}-{day:02d}"
            return exchange(d.pick(ask).format(text) + d.pick(["", "."]), f"{day} {words.MONTHS[month - 1]} {year}")


def markdown(d: Draw) -> list[Message]:
    """Bold, italics, code, headings, quotes, links."""
    short = " ".join(d.pick(words.COMMON) for _ in range(d.span(1, 6)))
    match d.number(0, 5):
        case 0:
            chosen = [d.pick(words.COMMON) for _ in range(d.span(3, 9))]
            word = d.pick(chosen)
            marked = " ".join(f"**{each}**" if each == word else each for each in chosen)
            return exchange(f"{d.pick(['Make', 'Put', 'Set'])} the word {word} in bold: {' '.join(chosen)}", marked)
        case 1:
            return exchange(f"{d.pick(['Make this bold', 'Write this in bold', 'In bold'])}: {short}", f"**{short}**")
        case 2:
            return exchange(f"{d.pick(['Write this in italics', 'Make this italic', 'In italics'])}: {short}", f"*{short}*")
        case 3:
            ask = d.pick(["Make this a heading", "Turn this into a heading", "Write this as a Markdown heading"])
            return exchange(f"{ask}: {short}", f"# {short}")
        case 4:
            ask = d.pick(["Quote this in Markdown", "Make this a Markdown quote", "Turn this into a quote"])
            return exchange(f"{ask}: {short}", f"> {short}")
        case _:
            code = f"{d.pick(words.IDENTIFIERS)} = {d.number(0, 99)}"
            ask = d.pick(["Put this in a code block", "Write this as a code block", "Make a code block of this"])
            return exchange(f"{ask}: {code}", f"```\n{code}\n```")
