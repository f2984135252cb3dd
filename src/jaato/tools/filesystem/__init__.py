"""Reach files of the workspace and nothing else: containment, safe opening, control files, edits."""
