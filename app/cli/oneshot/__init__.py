"""`specchat run`."""
