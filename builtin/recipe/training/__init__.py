"""Parts shared by the recipe's trainings, and the training of a drafter for any model."""
