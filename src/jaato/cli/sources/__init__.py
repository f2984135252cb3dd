"""Commands for remote tool sources, MCP servers and registries: what both kinds have in common."""
