"""What `jaato mcp serve` refuses to begin with."""

from __future__ import annotations

import subprocess
import sys

from tests.mcp_server.serving import House


def test_wrong_flags_are_said_before_anything_is_served(house: House) -> None:
    """A tool, plugin, address or flag that makes no sense is exit code 2 with what to do."""
    for flags, said in (
        (("--tools", "nothing_like_it"), "There is no tool"),
        (("--plugins", "nothing"), "No plugin 'nothing'"),
        (("--http", "localhost"), "is not an address"),
        (("--http", ":99999999"), "is not an address"),
        (("--allow-host", "a"), "--http"),
        (("--all-tools", "--tools", "readFile"), "contradict"),
    ):
        done = house.ended(*flags)
        assert done.returncode == 2, done
        assert said in done.stderr.decode()
        assert not done.stdout


def test_without_its_library_it_says_which_extra_to_install(house: House) -> None:
    """Where the SDK is not installed the command says what to install, and nothing else happens."""
    code = (
        "import sys; sys.modules['mcp'] = None; from jaato.cli import main; sys.exit(main(['mcp', 'serve']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=house.env, input="", capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert "pip install 'jaato[mcp]'" in done.stderr
    assert not done.stdout
