"""Plans: what the model means to do, step by step, visible to everyone."""
