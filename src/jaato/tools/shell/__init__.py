"""Shell lines as syntax: parsed, split into commands and words, matched by patterns."""
