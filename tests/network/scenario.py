"""A session's network as whichever user runs this, in a process of its own; what was seen is printed as JSON."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path

from tests.network.running import OUTSIDE, Session, granted, web

from jaato.tools.permissions.access import READ_ONLY

SERVER = 'python3 -u -c \'import http.server as h; s = h.HTTPServer(("127.0.0.1", 8123), h.SimpleHTTPRequestHandler); '
SERVER += 'print("ready"); s.serve_forever()\''


async def seen(session: Session, port: int) -> dict[str, object]:
    """What the commands of a session found."""
    url = f"http://{OUTSIDE}:{port}/page"
    async with session.background(SERVER, until="ready"):
        local = await session.run("curl -sS -m 5 http://127.0.0.1:8123/page", READ_ONLY)
    reached = await session.run(f"curl -sS {url}", granted(f"{OUTSIDE}:{port}"))
    refused = await session.run(f"curl -sS {url}", granted("other.example"))
    closed = await session.run(f"curl -sS {url}")
    capabilities = await session.run("id -u; grep CapEff /proc/self/status; ls /proc/self/fd | wc -l")
    return {
        "local": local.output,
        "reached": reached.output,
        "refused": refused.refused,
        "closed": closed.code,
        "inside": capabilities.output.split(),
    }


def main() -> None:
    """Run the scenario, or with `refused` only ask for a network where namespaces are forbidden."""
    workspace = Path(tempfile.mkdtemp(dir=sys.argv[1]))
    (workspace / "page").write_text("hello")
    session = Session(workspace, environ={"PATH": os.defpath, "HOME": str(workspace)})
    if sys.argv[2:] == ["refused"]:
        networks = session.sandbox._networks
        found = [asyncio.run(networks.ensure("s1", session.launcher)) for _ in range(2)]
        print(json.dumps({"networks": found, "refusal": networks.refusal}))
    else:
        with web(workspace) as port:
            print(json.dumps(asyncio.run(seen(session, port))))
    session.close()


if __name__ == "__main__":
    main()
