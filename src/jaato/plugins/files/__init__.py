"""Files of the workspace: read, list, edit, patch, find and replace, undo."""
