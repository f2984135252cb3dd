"""Background tasks as tools: start, look, read, stop, list."""
