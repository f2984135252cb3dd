"""Change files so that nothing is lost: backups, atomic replacement, transactions, undo."""
