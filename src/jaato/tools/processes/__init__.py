"""Processes that tools start: under a warden, in a sandbox, ended with all they started."""
