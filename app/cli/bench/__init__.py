"""`specchat bench`: every method over the same prompts, interleaved, and what that tells."""
