"""The loop of model and tools, and the session it runs in."""
