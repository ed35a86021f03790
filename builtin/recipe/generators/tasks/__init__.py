"""Tasks on a text, a list, code or numbers that the user gives."""
