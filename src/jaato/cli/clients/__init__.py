"""The commands with which people, and editors, look at a session."""
