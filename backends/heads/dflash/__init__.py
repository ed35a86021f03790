"""DFlash drafters and their relatives DSpark and DFlash 2: formats, networks, and how guesses go by the token before."""
