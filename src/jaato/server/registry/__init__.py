"""The tool registry's door: tools of this machine for programs elsewhere, over HTTP."""
