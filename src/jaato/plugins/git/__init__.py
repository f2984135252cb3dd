"""Reading repositories: what changed, when, by whom."""
