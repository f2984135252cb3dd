"""Programs at a terminal: REPLs, debuggers, prompts, full-screen programs."""
