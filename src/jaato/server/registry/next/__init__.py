"""The later generation of the registry's contract, under a prefix: the same tools and calls in its words."""
