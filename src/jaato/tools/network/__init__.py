"""The proxy through which confined processes reach the hosts that were granted to them."""
