"""Limits of a session beside those of one turn: what it may spend, and how often it may repeat itself."""
