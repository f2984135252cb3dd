"""The web client: its built files, and the pairing of browsers."""
