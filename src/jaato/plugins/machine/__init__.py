"""What runs on this machine and what listens."""
