"""Arithmetic: exact where it can be, bounded whatever is asked."""
