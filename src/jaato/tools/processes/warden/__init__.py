"""The process that owns what commands start; runs alone, on the standard library only."""
