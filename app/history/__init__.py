"""Every chat, kept: an SQLite database in the data folder. docs/files.md tells how.

`store` opens the database and mends what it can, `schema` says what is in it, `entries` turns what was said into rows and back,
`recorder` saves a chat while it is written, `chats` lists, searches, opens, renames, deletes and branches.
"""
