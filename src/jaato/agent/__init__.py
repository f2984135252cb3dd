"""The agent: turns of model and tool calls, and the session they run in."""
