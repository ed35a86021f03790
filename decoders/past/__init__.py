"""Past answers as an index on disk that methods draft from."""
