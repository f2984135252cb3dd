"""The tools that come with jaato: one directory a domain, independent of each other."""
