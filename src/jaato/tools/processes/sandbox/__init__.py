"""The sandbox: what a profile allows, the back ends that enforce it, and the session's network."""
