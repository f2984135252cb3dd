"""Who may connect: the gate, tokens, allowed hosts, the throttle of wrong tokens, and the pairing of browsers."""
