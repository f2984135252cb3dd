"""A server-first runtime for agents that use tools."""
