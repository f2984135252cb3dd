"""Subagents as tools: tasks that other agents of the session do, and what they share."""
