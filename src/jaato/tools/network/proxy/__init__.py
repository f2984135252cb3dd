"""The proxy through which confined processes reach the hosts that are on their allowlist."""
