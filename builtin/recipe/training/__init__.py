"""What the recipe's trainings share, and how a drafter is trained for a model of one's own."""
