"""How long a registry waits for its clients, in seconds, and for how much."""

HEAD_S = 15.0
"""How long a request may take to say what it wants."""
BODY_S = 30.0
IDLE_S = 60.0
ENDING_S = 1.0
"""How long a call may still take whose client has ended its side of the connection."""
LINGER_S = 5.0
"""How long a client may go on talking that has been told something final: cut off in the middle, it would not read it."""
UNREAD_S = 30.0
UNREAD_BYTES = 65_536
"""A client takes so much of its answers in that time, or is left."""
MAX_WAITING = 16
"""Requests that are read while one before them is answered."""
NEVER = float("inf")
