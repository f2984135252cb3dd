"""`jaato config`: show every setting, its value and its source; trust the settings of a workspace."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

from jaato.cli.arguments.values import workspace_of
from jaato.cli.output.console import print_json, print_line, print_rows
from jaato.errors import ConfigError
from jaato.runtime.session_options import SessionOptions, settings_for
from jaato.settings import Settings, read_toml
from jaato.settings.fields import FIELDS


def main(args: Namespace) -> int:
    """Show the settings, or trust the workspace's file."""
    workspace = workspace_of(args)
    settings = settings_for(SessionOptions(workspace=workspace), workspace)
    path = workspace / ".jaato" / "config.toml"
    if args.trust:
        trust(settings, path)
        return 0
    if args.json:
        print_json(
            {
                "settings": {
                    name: {"value": settings[name], "source": settings.source(name), "help": field.help}
                    for name, field in FIELDS.items()
                },
                "files": {"user": str(settings.config_file), "workspace": str(path)},
                "state_dir": str(settings.state_dir),
                "cache_dir": str(settings.cache_dir),
                "notes": settings.notes,
            }
        )
        return 0
    if args.explain:
        for name, field in FIELDS.items():
            choices = f" (one of {', '.join(field.choices)})" if field.choices else ""
            print_line(f"{name} = {value_text(settings[name])}   from {settings.source(name)}")
            print_line(f"    {field.help}{choices}; JAATO_{name.upper()}, or {name} in config.toml")
        print_line("")
    else:
        print_rows((name, value_text(settings[name]), settings.source(name)) for name in FIELDS)
    print_rows(
        [
            ("user file", file_text(settings.config_file)),
            ("workspace file", file_text(path)),
            ("sessions and keys", str(settings.state_dir)),
            ("models", str(settings.cache_dir)),
        ]
    )
    for note in settings.notes:
        print_line(f"note: {note}")
    return 0


def value_text(value: object) -> str:
    """A value as written in the file; `-` for none."""
    return "-" if value is None else json.dumps(value, ensure_ascii=False)


def file_text(path: Path) -> str:
    """A path, and whether the file exists."""
    return str(path) if path.is_file() else f"{path} (not found)"


def trust(settings: Settings, path: Path) -> None:
    """Trust the current content of the workspace's file. Raises `ConfigError`."""
    from jaato.tools.permissions.trust import Trust

    loaded = read_toml(path)
    if loaded is None:
        raise ConfigError(f"There is no {path} to trust.")
    Trust(settings.state_dir).add(path, loaded[0])
    print_line(f"trusted the current {path}; after a change it must be trusted again")
