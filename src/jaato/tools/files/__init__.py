"""Changing files so that nothing is lost: backups, whole changes, sets of them, undo."""
