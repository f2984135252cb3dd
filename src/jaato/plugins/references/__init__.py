"""Documents the model should know of: declared by the workspace or the user, read on demand."""
