"""Remote tool sources, MCP servers and registries: configuration files, trust, pins, and who has which."""
