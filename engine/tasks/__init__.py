"""Long work that the engine does beside answering."""
