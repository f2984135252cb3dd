"""The interfaces you may implement: a plugin, a provider, a store, an asker."""
