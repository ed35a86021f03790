"""Every chat, kept: an SQLite database in the data folder. docs/files.md tells how.

`store` opens the database, `schema` says what is in it, `entries` turns what was said into rows and back, `recorder` saves a
chat while it is written, `chats` lists, searches, opens, renames and deletes.
"""

remarks: list[str] = []
"""What was done to the history that nobody has been told of yet. Whoever speaks to a person next says it, once (`told`)."""


def told() -> list[str]:
    """The remarks, which are told with this."""
    said = remarks[:]
    del remarks[: len(said)]
    return said
