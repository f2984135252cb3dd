"""The registry of plugins: found, loaded within bounds, told where they work, and shut down."""
