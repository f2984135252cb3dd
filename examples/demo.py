"""`make demo`: the embedded model works on a copy of examples/shop, with real tools, and what it did is shown."""

import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from jaato.settings import environment, user_dir

SHOP = Path(__file__).parent / "shop"
TASKS = (
    ("urgent.txt", "Read todo.txt, then write urgent.txt with the urgent task."),
    (
        "monday.txt",
        'Call list_tools with the query "copy a file". Then get the schema of copyFile and copy todo.txt to monday.txt.',
    ),
)
FIRST = "What does JSON stand for?"
"""A question without tools: for it the model is downloaded, and reads its fixed prompt, which is kept for all others."""
RULES = ("--allow", "writeNewFile", "--allow", "copyFile", "--deny", "run")


def main() -> int:
    """Run the tasks one after the other; the exit code of the first that fails."""
    with tempfile.TemporaryDirectory(prefix="jaato-demo-") as place:
        workspace = Path(shutil.copytree(SHOP, Path(place) / "shop"))
        print(f"A copy of examples/shop is in {workspace}.", flush=True)
        if not has_read_prompt():
            print("\nOnce only: the model is downloaded and reads its fixed prompt, for about a minute.")
            if code := run(workspace, FIRST):
                return code
        for written, prompt in TASKS:
            code = run(workspace, prompt)
            path = workspace / written
            if code != 0 or not path.is_file():
                print(f"The demo did not get as far as {path}; the exit code was {code}.")
                return code or 1
            print(f"\nIt wrote {path}:\n")
            print("".join(f"    {line}\n" for line in path.read_text().splitlines()), flush=True)
    print("The copy is gone again. `jaato sessions list --all` has the log of what was done.")
    return 0


def has_read_prompt() -> bool:
    """Whether the state of a fixed prompt is kept on this machine."""
    prompts = user_dir(environment(), "XDG_CACHE_HOME", ".cache") / "prompts"
    return any(not path.stem.endswith("-begun") for path in prompts.glob("*.state"))


def run(workspace: Path, prompt: str) -> int:
    """One `jaato run` with the embedded model, which may be fetched first (`--yes`)."""
    arguments = ["run", "--provider", "local", "--yes", *RULES, prompt]
    print(f"\n$ {shlex.join(['jaato', *arguments])}", flush=True)
    environ = {
        name: value
        for name, value in environment().items()
        if not name.startswith("JAATO_") or name == "JAATO_LOCAL_MODEL"
    }
    command = [sys.executable, "-m", "jaato", *arguments]
    return subprocess.run(
        command, cwd=workspace, stdin=subprocess.DEVNULL, env=environ, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
