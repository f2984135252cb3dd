"""The `get_environment` tool: where the agent is and what it can use."""
