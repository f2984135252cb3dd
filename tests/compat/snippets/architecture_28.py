# Full registration - exposes tools and participates in enrichment
registry.register_plugin(my_plugin, expose=True)

# Enrichment-only registration - only prompt enrichment, no tool exposure
registry.register_plugin(session_plugin, enrichment_only=True)
