"""Small talk, what lies outside the model's subjects, and what is no request at all."""
