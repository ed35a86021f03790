"""The method that chooses among the others."""
