"""What jaato brings: one directory a domain, independent of each other."""
