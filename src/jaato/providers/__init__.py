"""Model providers: thin wire dialects of our own, and what runs without a wire."""
