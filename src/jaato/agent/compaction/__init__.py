"""Making room in a full context: the mechanism, and the strategies that come with jaato."""
