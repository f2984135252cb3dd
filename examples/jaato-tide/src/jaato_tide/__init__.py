"""The tide as a plugin: an example of what a distribution can add to jaato."""
