"""The verification loop that every method shares, and its parts: pass, guard, recorder and clock."""
