"""Servers of this process: the session protocol, MCP and the tool registry over HTTP and sockets."""
