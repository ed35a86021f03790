"""The code in an answer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from specchat.app.tui.actions.copy import code_blocks

ANSWER = """First:

```python
def f():
    return 1

```

Then in a list:

1. run it

   ```sh
   make test
   ```

And indented:

    x = 1
    y = 2

Tildes, with backticks inside:

~~~
```
~~~
"""


def test_every_kind_of_block_is_found_as_it_stands() -> None:
    found = [(block.language, block.text) for block in code_blocks(ANSWER)]
    assert found == [("python", "def f():\n    return 1\n"), ("sh", "make test"), ("", "x = 1\ny = 2"), ("", "```")]


def test_a_block_that_is_still_being_written_counts_as_far_as_it_goes() -> None:
    assert [block.text for block in code_blocks("So:\n\n```c\nint a;\nint b")] == ["int a;\nint b"]


def test_prose_has_none() -> None:
    assert code_blocks("A sentence with `code` in it.\nAnd    spaces.") == []


def test_a_preview_shows_controls_and_fits() -> None:
    [block] = code_blocks("```\n\x1b[31mred\n\n\tlong " + "x" * 200 + "\nthree\nfour\n```")
    assert block.lines == 5
    lines = block.preview(20).split("\n")
    assert lines[0] == "␛[31mred"
    assert lines[1].startswith("    long x")
    assert all(len(line) <= 24 for line in lines)
    assert lines[-1] == "…"


@given(st.text())
def test_any_text_can_be_looked_through(text: str) -> None:
    for block in code_blocks(f"```{text}\n{text}"):
        assert "\x1b" not in block.preview(40)
