"""Images for models that can see."""
