"""The version of jaato, for those who would need no more of the root package than this."""

__version__ = "0.1.0"
