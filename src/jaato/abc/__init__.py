"""Interfaces for extensions: plugins, providers, stores, askers."""
