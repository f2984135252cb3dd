"""Questions of the session in the full-screen client: permission and clarification."""
