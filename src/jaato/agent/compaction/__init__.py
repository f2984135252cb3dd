"""Context compaction: the engine, and the built-in strategies."""
