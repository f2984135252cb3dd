"""The subagents of a session: made, bounded, run beside the turns of those who gave them tasks."""
