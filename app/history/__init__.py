"""The history: an SQLite database of every chat in the data folder (docs/files.md).

`store` declares and opens the database, `recorder` saves a chat while it is written, `chats` lists, searches, opens, renames
and deletes.
"""

notices: list[str] = []
"""History notices not yet shown; `take_notices` returns and clears them."""


def take_notices() -> list[str]:
    """Return the notices that have not been shown, once each."""
    return [notices.pop(0) for _ in range(len(notices))]
