"""The protocol with one client: its connection, and the handlers of its commands."""
