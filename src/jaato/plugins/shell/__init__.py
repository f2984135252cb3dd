"""The `run` tool: shell commands whose processes never outlive the call."""
