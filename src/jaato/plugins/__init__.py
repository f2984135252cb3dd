"""The tools that come with jaato, one directory a domain."""
