"""Tools of remote registries: found by their planner view, described when asked for, called over HTTP."""
