"""`jaato config`: every setting, its value and where that comes from."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

from jaato.cli.arguments.values import workspace_of
from jaato.cli.output.tables import print_json, print_line, print_rows
from jaato.errors import ConfigError
from jaato.runtime.session_options import SessionOptions, settings_for
from jaato.settings import Settings, read_toml
from jaato.settings.fields import FIELDS


def main(args: Namespace) -> int:
    """Show the settings, or trust those the workspace brings."""
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
            print_line(f"{name} = {shown(settings[name])}   from {settings.source(name)}")
            print_line(f"    {field.help}{choices}; JAATO_{name.upper()}, or {name} in config.toml")
        print_line("")
    else:
        print_rows((name, shown(settings[name]), settings.source(name)) for name in FIELDS)
    print_rows(
        [
            ("user file", present(settings.config_file)),
            ("workspace file", present(path)),
            ("sessions and keys", str(settings.state_dir)),
            ("models", str(settings.cache_dir)),
        ]
    )
    for note in settings.notes:
        print_line(f"note: {note}")
    return 0


def shown(value: object) -> str:
    """A value as it would be written in the file; `-` for none."""
    return "-" if value is None else json.dumps(value, ensure_ascii=False)


def present(path: Path) -> str:
    """A path, and whether there is something."""
    return str(path) if path.is_file() else f"{path} (there is none)"


def trust(settings: Settings, path: Path) -> None:
    """Let the workspace's file decide, as it is now. Raises `ConfigError`."""
    from jaato.tools.permissions.trust import Trust

    loaded = read_toml(path)
    if loaded is None:
        raise ConfigError(f"There is no {path} to trust.")
    Trust(settings.state_dir).add(path, loaded[0])
    print_line(f"trusted {path} as it is now; any change to it must be trusted again")
