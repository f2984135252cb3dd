"""Two tool registries and an MCP server, a registry that serves their tools on, and an agent that finds them all there.

Each is a program of its own; the MCP server needs the extra `mcp`. The agent uses the model that `JAATO_PROVIDER` and
`JAATO_MODEL` name; where nothing is named, the replies of a model are played that are written down beside it, so that it
needs no key.
"""

import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jaato.settings import environment

HERE = Path(__file__).parent / "registries"
REPLIES = HERE.parent / "replies" / "registries.json"
JAATO = (sys.executable, "-m", "jaato")
TASK = (
    "I am in Bern tomorrow. When does a train leave after ten, will it rain, and how do I ask for a ticket?"
)


def written(home: Path, name: str, document: object) -> None:
    """Write a file of a user's configuration."""
    (home / name).parent.mkdir(parents=True, exist_ok=True)
    (home / name).write_text(json.dumps(document))


def environ_of(home: Path) -> dict[str, str]:
    """The environment of a user of whom nothing is known but what is below this directory."""
    known = {name: value for name, value in environment().items() if not name.startswith("XDG_")}
    return {**known, "HOME": str(home)}


@contextmanager
def registry(home: Path, *arguments: str) -> Iterator[dict[str, str]]:
    """`jaato registry serve` while the context is entered; gives its entry for `registries.json`."""
    home.mkdir(exist_ok=True)
    command = [*JAATO, "registry", "serve", "--port", "0", "--workspace", str(home), *arguments]
    with subprocess.Popen(command, env=environ_of(home), stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            line = next((line for line in process.stderr if " at http" in line), "")
            if not line:
                sys.exit(f"The registry by {home.name} did not start.")
            said, _, token_file = line.strip().partition("; the token is in ")
            print(said.removeprefix("jaato: ").partition(" at ")[0], "by", home.name, flush=True)
            token = {"token": Path(token_file).read_text().strip()} if token_file else {}
            yield {"url": said.partition(" at ")[2], **token}
        finally:
            process.terminate()
            process.stderr.read()


def main(place: Path) -> int:
    """Serve, serve on, and ask an agent."""
    server = {"command": sys.executable, "args": [str(HERE / "phrases.py")]}
    with (
        registry(place / "weather", "--domains", str(HERE / "weather.py")) as weather,
        registry(place / "trains", "--domains", str(HERE / "trains.py")) as trains,
    ):
        written(place / "all", ".config/jaato/registries.json", {"registries": {"w": weather, "t": trains}})
        written(place / "all", ".mcp.json", {"mcpServers": {"phrases": server}})
        with registry(place / "all", "--domains", ",", "--plugins", "arp,mcp", "--yes") as everything:
            agent = place / "agent"
            written(agent, ".config/jaato/registries.json", {"registries": {"all": everything}})
            # the agent's user allows what the one registry offers, and nothing else that needs to be asked about
            rules = ("forecast", "departures", "all__mcp__phrases__phrase")
            allow = [word for rule in rules for word in ("--allow", rule)]
            model = (
                ()
                if environment().get("JAATO_PROVIDER")
                else ("--provider", "scripted", "--model", str(REPLIES))
            )
            command = [*JAATO, "run", "--workspace", str(agent), *model, *allow, TASK]
            return subprocess.run(command, env=environ_of(agent), check=False).returncode


if __name__ == "__main__":
    if importlib.util.find_spec("mcp") is None:
        sys.exit("The MCP server needs the extra mcp: pip install 'jaato[mcp]'")
    with tempfile.TemporaryDirectory(prefix="jaato-registries-") as directory:
        sys.exit(main(Path(directory)))
