"""The warden, which owns the processes that commands start; runs alone, on the standard library only."""
