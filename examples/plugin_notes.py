"""A plugin with two tools and a command, registered by a program; copied to ~/.config/jaato/plugins/ it is found by itself."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from jaato import JaatoClient, Plugin, PluginRegistry, UserCommand, tool
from jaato.abc.plugin import Host

PLUGIN_KIND = "tool"


class Notes(Plugin):
    """Keep short notes for this workspace."""

    name = "notes"

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self.file: Path = host.workspace / "notes.md"

    @tool(category="memory", access="read", core=True)
    def read_notes(self) -> str:
        """Read all notes. Do so before asking the user what was agreed."""
        return self.file.read_text() if self.file.exists() else "no notes yet"

    @tool(category="memory", access="read", core=True)
    def add_note(self, text: str) -> str:
        """Add one note. Use it for facts worth remembering in later sessions."""
        with self.file.open("a") as file:
            file.write(f"- {text}\n")
        return "noted"

    def user_commands(self) -> dict[UserCommand, Callable[[str], Any]]:
        """`/notes` shows them in a chat."""
        return {UserCommand("notes", "Show the notes."): lambda _line: self.read_notes()}


def main() -> None:
    """Let an agent take a note in the current directory, and show it."""
    registry = PluginRegistry()
    from jaato.runtime.plugins.registry import PluginHost

    registry.register_plugin(Notes(PluginHost(registry, {})), expose=True)
    with JaatoClient() as client:
        client.connect()
        client.configure_tools(registry)
        print(client.send_message("Remember that the tea supplier closes at noon on Fridays."))
    print(Path("notes.md").read_text(), end="")
    registry.shutdown()


if __name__ == "__main__":
    main()
