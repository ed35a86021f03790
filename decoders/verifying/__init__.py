"""The loop that every method shares, and what takes part in it: a pass, a guard, a watch and a clock."""
