"""Plugin registry: discovery, lazy loading, validation, isolation and shutdown of plugins."""
