"""Connections to the network: addresses checked, pinned and made; proxies; signed webhooks."""
