"""The history: an SQLite database of every chat in the data folder (docs/files.md)."""

notices: list[str] = []
"""History notices not yet shown; `take_notices` returns and clears them."""


def take_notices() -> list[str]:
    return [notices.pop(0) for _ in range(len(notices))]
