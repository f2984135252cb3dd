"""Agent Skills and stored prompts: written instructions that are found like tools."""
