"""The prompt of the full-screen client: a message of several lines, its completions, its history and its draft."""
