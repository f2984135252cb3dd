"""The tool registry: serves tools of this machine to other programs over HTTP."""
