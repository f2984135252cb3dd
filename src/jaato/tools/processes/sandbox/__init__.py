"""Confining processes in the kernel: what a profile opens, the back ends that enforce it, and the session's network."""
