"""The gateway to all other tools: find them, read their schemas, activate them."""
