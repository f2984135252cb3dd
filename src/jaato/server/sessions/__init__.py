"""Sessions of a server: the hub, the pool of loaded sessions, what watchers see, and what is kept of them."""
