"""The recipe that makes the built-in models: corpus, training, export, evaluation. It needs a clone: wheels leave it out."""
