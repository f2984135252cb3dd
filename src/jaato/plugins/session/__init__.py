"""What the model can say and ask about its own session."""
