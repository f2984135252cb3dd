"""Talking to a server: connections that come back, and the state of a session as every view shows it."""
