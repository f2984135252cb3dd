"""Texts with places to fill in."""
