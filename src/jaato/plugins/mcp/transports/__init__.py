"""Transports of the MCP client."""
