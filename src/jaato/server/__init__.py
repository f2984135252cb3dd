"""The doors through which others come in: protocols served by this process."""
