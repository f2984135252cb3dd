"""The web client: its built files."""
