"""The web: pages, searches, and HTTP services."""
