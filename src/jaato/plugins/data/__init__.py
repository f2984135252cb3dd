"""Data files: SQLite databases, CSV, JSON and its relatives."""
