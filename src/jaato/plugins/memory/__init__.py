"""Notes that outlive a session."""
