"""Questions from the model to the user."""
