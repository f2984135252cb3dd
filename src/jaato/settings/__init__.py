"""Settings of jaato: the fields, and their values from flags, variables and files."""

from jaato.settings.loader import (
    Settings,
    Value,
    environment,
    home_of,
    load,
    parse_value,
    read_toml,
    set_process_variables,
    user_dir,
)

__all__ = [
    "Settings",
    "Value",
    "environment",
    "home_of",
    "load",
    "parse_value",
    "read_toml",
    "set_process_variables",
    "user_dir",
]
