"""Tools of MCP servers: configured in `.mcp.json`, trusted by content, started when first used."""
