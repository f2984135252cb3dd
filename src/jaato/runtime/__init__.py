"""Assembles sessions from settings, plugins, providers and the store; the interfaces for programs."""
