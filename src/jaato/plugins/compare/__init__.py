"""Files held against each other: differences and checksums."""
