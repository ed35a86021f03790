"""Texts that want to be more than text, and the check that they are not."""

from __future__ import annotations

import re
import unicodedata

from hypothesis import strategies as st

from ..cases import cases

CASES = cases(5000)

MARKUP = (
    "[red]", "[/red]", "[/]", "[bold", "[link=javascript:alert(1)]x[/link]", "[@click=app.quit]x[/]", "[$primary]", "\\[",
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "</textarea>", "</style>", "]]>", "<!--", "--!>", "&lt;",
    "&#x1b;", "[x](javascript:alert(1))", "<javascript:alert(1)>", "![x](data:text/html,x)", "[a]: javascript:alert(1)",
    "[a]", "{{7*7}}", "```", "~~~", "`", "# ", "> ", "- ", "| a | b |\n|---|---|\n", "***", "__", "$(touch x)", "%s%n",
    "{0}", "'\"", "\\", '" onload="alert(1)', "' x='", "href=javascript:alert(1)", "<a href='java\tscript:x'>",
    "<svg/onload=x>", "<?xml", "<![CDATA[",
)  # fmt: skip

CONTROLS = (
    "\x1b[31337m", "\x1b[2J", "\x1b[H", "\x1b[?1049l", "\x1b[6n", "\x1bc", "\x1b(0", "\x1b]0;PWNED\x07", "\x1b]2;PWNED\x1b\\",
    "\x1b]52;c;UFdORUQ=\x07", "\x1b]8;;file:///etc/passwd\x1b\\", "\x1b]1337;File=:x\x07", "\x1bP+q544e\x1b\\",
    "\x1b_Ga=T\x1b\\", "\x9b31m", "\x9d0;PWNED\x9c", "\x90q\x9c", "\x85", "\x00", "\x07", "\x08\x08\x08", "\x0b", "\x0c",
    "\x0e", "\x7f", "\r", "\r\n", "\x1b", "\x1b[", "\x1b]", "\t", "\n", "\x1a", "\x04", "\x03", "\x11", "\x13",
)  # fmt: skip

UNICODE = (
    "\u202e", "\u202d", "\u202a", "\u2066", "\u2067", "\u2068", "\u2069", "\u200e", "\u200f", "\u061c", "\u2028", "\u2029",
    "\ufeff", "\u200b", "\u200c", "\u200d", "\u2060", "\u00ad", "\u034f", "\u115f", "\u3164", "\ufff9", "\ufffb", "\ufffe",
    "\U000e0041", "\ud800", "\udfff", "\ud83d", "\udcff", "e" + "\u0301" * 40, "\u0489" * 30, "Z" + "\u0335\u0336\u0337" * 20,
    "\ufe0f", "\u20e3", "\U0001f468" + "\u200d\U0001f469" * 30, "\U0001f1e9" * 5, "\U0001f3fb", "\u200d" * 50, "漢字", "가나",
    "עברית", "العربية", "\u0e33\u0e33", "\u0dcf", "\ua953", "\U0001d173", "\U000e0001\U000e007f", "ﷺ", "꧅", "𒐫", "\u1885",
    "\u17b4", "\ue000", "\U0010ffff",
)  # fmt: skip

TEXTS = st.lists(
    st.sampled_from(MARKUP) | st.sampled_from(CONTROLS) | st.sampled_from(UNICODE) | st.text(max_size=6) | st.just(" a b "),
    max_size=14,
).map("".join)
"""Hostile texts."""

CELLS = st.integers(1, 90)

FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that no terminal may get from a text: controls but tab and newline, bidi controls, halves of pairs."""


def calm(text: str, *, line: bool = True) -> bool:
    """Tell whether a text can do nothing but be shown; `line`: on one line, and so without tabs."""
    text.encode()
    if line and ("\n" in text or "\t" in text):
        return False
    directions = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    return FORBIDDEN.search(text) is None and directions.isdisjoint(map(unicodedata.bidirectional, text))
