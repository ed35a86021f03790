"""The decoding methods, one file each."""
