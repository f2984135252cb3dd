"""Who may come in: the gate, tokens, allowed hosts, and the throttle of wrong tokens. Browsers are paired in `server.web`."""
