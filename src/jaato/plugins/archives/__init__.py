"""Archives: list, extract, create."""
