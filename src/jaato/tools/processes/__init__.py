"""Processes that outlive nobody: started under a warden, watched, and ended with all they started."""
