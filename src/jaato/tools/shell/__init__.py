"""Shell lines as syntax: parsed, split into commands and words, matched by patterns. `tools.permissions` decides whether they run."""
