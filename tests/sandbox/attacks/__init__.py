"""Attacks on the sandbox: small programs that try to do harm outside of it. They import the standard library alone."""
