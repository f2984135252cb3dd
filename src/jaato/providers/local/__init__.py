"""The embedded model: downloaded once, run inside the process, held to valid tool calls by its grammar."""
