"""The index of past answers on disk that methods draft from."""
