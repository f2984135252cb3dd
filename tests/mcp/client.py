"""What the conformance suite starts for each scenario: asks the waiting process to play it. Standard library alone."""

import json
import os
import socket
import sys


def main(path: str, url: str) -> int:
    """Play the scenario that the environment names against a URL; gives the exit code."""
    asked = {
        "scenario": os.environ["MCP_CONFORMANCE_SCENARIO"],  # noqa: TID251 this is no part of jaato
        "context": json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}"),  # noqa: TID251 as above
        "url": url,
    }
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        with connection.makefile("rw") as stream:
            stream.write(json.dumps(asked) + "\n")
            stream.flush()
            answer = json.loads(
                stream.readline() or '{"code": 99, "out": "the process that plays has ended"}'
            )
    sys.stderr.write(answer["out"])
    code: int = answer["code"]
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
