"""Methods that draft with a drafter trained for the target."""
