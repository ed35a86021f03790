"""Chats from elsewhere, brought into the history. docs/import.md tells how.

`sources` says what a file is by its content and reads it piece by piece (`stream`); `shapes`, `chatgpt` and `llm_logs` turn
what is in it into conversations; `conversation` is what they all become; `layout` makes our entries of one, `tree` has all its
ways; `keeping` writes what the history does not have yet; `run` is all of that, `commands` and `in_chat` its two ends.
"""
