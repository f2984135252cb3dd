"""Subagents of a session: started, bounded, run beside the turns of their parents, stopped."""
