"""Methods that draft with something trained for the target."""
