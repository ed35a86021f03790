"""What servers draft by themselves: their own algorithms, so that a recorded answer predicts what a flag would bring there."""
