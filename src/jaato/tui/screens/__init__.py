"""Screens beside the conversation: sessions, waypoints, tasks, tools, permissions, usage, context, keys."""
