"""What is typed in a shell: one file per group of commands."""
