"""Arithmetic in expressions: exact while it can be, bounded always."""
