"""The Agent Client Protocol: editors as clients of sessions, over the standard streams."""
