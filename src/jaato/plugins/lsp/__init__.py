"""Code intelligence from language servers."""
