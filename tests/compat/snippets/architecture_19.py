# Tool plugins (for model function calling)
PLUGIN_KIND = "tool"

# GC plugins (for context garbage collection)
PLUGIN_KIND = "gc"

# Session plugins (for conversation persistence)
PLUGIN_KIND = "session"

# Model provider plugins (for SDK abstraction)
PLUGIN_KIND = "model_provider"
