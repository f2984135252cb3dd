"""jaato's tools offered to MCP clients, through the one pipeline every call takes."""
