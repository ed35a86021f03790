"""Commands of the shell: one file per group."""
