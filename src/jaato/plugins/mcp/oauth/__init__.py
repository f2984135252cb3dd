"""Logging in to MCP servers."""
