"""An MCP server written by hand, without the SDK: what it does wrong is said by its first argument."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

MODE = sys.argv[1] if len(sys.argv) > 1 else "fine"
ECHO = {
    "name": "echo",
    "description": "Say something back.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}
TEXT = {"content": [{"type": "text", "text": "never seen"}]}


def send(message: dict[str, Any]) -> None:
    """One message."""
    sys.stdout.buffer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    sys.stdout.buffer.flush()


def raw(data: bytes) -> None:
    """Any bytes."""
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def tools() -> list[dict[str, Any]]:
    """What it lists."""
    match MODE:
        case "two-names":
            return [ECHO, {**ECHO, "description": "Another."}, {**ECHO, "name": "other"}]
        case "built-in-names":
            return [{**ECHO, "name": name} for name in ("readFile", "run", "list_tools", "mcp__raw__echo")]
        case "bad-schema":
            schemas = [
                {"type": "nothing"},
                {"type": "object", "properties": 5},
                {"type": "string"},
                {"$ref": "http://127.0.0.1:1/x"},
            ]
            return [{**ECHO, "name": f"bad{n}", "inputSchema": one} for n, one in enumerate(schemas)] + [ECHO]
        case "big-schema":
            return [
                {**ECHO, "name": "big", "inputSchema": {"type": "object", "description": "x" * 10_000_000}},
                ECHO,
            ]
        case "odd-names":
            return [{**ECHO, "name": name} for name in ("a.b/c d", "ünïcode", "x" * 200, "")]
        case "no-list":
            return 7  # type: ignore[return-value]
        case "lies" | "liar-text":
            return [
                {
                    **ECHO,
                    "outputSchema": {
                        "type": "object",
                        "properties": {"n": {"type": "integer"}},
                        "required": ["n"],
                    },
                }
            ]
        case "refs":
            schema = {
                "type": "object",
                "properties": {
                    "text": {"$ref": "#/$defs/t"},
                    "k": {"oneOf": [{"const": 1}, {"type": "null"}]},
                },
                "$defs": {"t": {"type": "string", "minLength": 2}},
            }
            return [{**ECHO, "inputSchema": schema}]
    return [ECHO]


def listed(params: dict[str, Any]) -> dict[str, Any]:
    """A page of the list."""
    if MODE == "endless":
        at = int(params.get("cursor") or 0)
        return {"tools": [{**ECHO, "name": f"t{at}_{n}"} for n in range(20)], "nextCursor": str(at + 1)}
    if MODE == "same-cursor":
        return {"tools": [ECHO], "nextCursor": "again"}
    return {"tools": tools()}


def call(id_: Any, params: dict[str, Any]) -> None:
    """Answer a call, or do what it should not."""
    text = str(params.get("arguments", {}).get("text", ""))
    fine = {"content": [{"type": "text", "text": text}]}
    match MODE:
        case "die":
            print("about to die of a broken heart", file=sys.stderr, flush=True)
            os._exit(3)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "never":
            return
        case "wrong-id":
            send({"id": 999_999, "result": TEXT})
            send({"id": "abc", "result": TEXT})
            return
        case "id-types":
            for odd in (None, 1.5, [id_], {"a": 1}, True):
                send({"id": odd, "result": TEXT})
        case "text-id":
            send({"id": str(id_), "result": fine})
            return
        case "half":
            raw(b'{"jsonrpc": "2.0", "id": ' + str(id_).encode() + b', "result": {"content": [\n')
            return
        case "binary":
            raw(bytes(range(256)) * 100 + b"\n\xff\xfe{}\n\0\0\n")
        case "flood":
            line = json.dumps(
                {
                    "jsonrpc": "2.0",
                    "method": "notifications/message",
                    "params": {"level": "info", "data": "x" * 900},
                }
            )
            while True:
                raw((line + "\n").encode() * 50)
        case "flood-text":
            print("log line " * 10)
            while True:
                raw(b"not a message at all, only talk\n" * 2000)
        case "flood-stderr":
            while True:
                os.write(2, b"complaint " * 5000)
        case "flood-one-line":
            while True:
                raw(b"{" + b'"x":' * 20_000)
        case "lies":
            send({"id": id_, "result": {**fine, "structuredContent": {"n": "three"}}})
            return
        case "liar-text":
            send({"id": id_, "result": fine})
            return
        case "bad-result":
            send({"id": id_, "result": {"content": [{"type": "hologram", "x": 1}, 5]}})
            return
        case "refuse":
            send({"id": id_, "error": {"code": -32602, "message": "no such thing, try another"}})
            return
        case "is-error":
            send(
                {
                    "id": id_,
                    "result": {"content": [{"type": "text", "text": "disk on fire"}], "isError": True},
                }
            )
            return
        case "stdin-deaf":
            time.sleep(1000)
        case "late":
            time.sleep(0.3)
        case "tty":
            with open("/dev/tty", "w+") as terminal:
                terminal.write("Password: ")
                terminal.readline()
        case "progress":
            token = params.get("_meta", {}).get("progressToken")
            for n in range(1, 4):
                send(
                    {
                        "method": "notifications/progress",
                        "params": {"progressToken": token, "progress": n, "total": 3, "message": f"step {n}"},
                    }
                )
        case "slow-progress":
            token = params.get("_meta", {}).get("progressToken")
            for n in range(1, 8):
                send({"method": "notifications/progress", "params": {"progressToken": token, "progress": n}})
                time.sleep(0.2)
        case "surrogate":
            raw(
                b'{"jsonrpc":"2.0","id":'
                + str(id_).encode()
                + b',"result":{"content":[{"type":"text","text":"a\\ud800b"}]}}\n'
            )
            return
        case "environ":
            fine = {"content": [{"type": "text", "text": json.dumps(dict(os.environ))}]}
        case "deep":
            raw(
                b'{"jsonrpc":"2.0","id":'
                + str(id_).encode()
                + b',"result":'
                + b"[" * 100_000
                + b"]" * 100_000
                + b"}\n"
            )
            return
    send({"id": id_, "result": fine})


def begin() -> None:
    """What it does before it listens."""
    match MODE:
        case "hang":
            time.sleep(1000)
        case "exit":
            print("cannot find my configuration", file=sys.stderr, flush=True)
            sys.exit(7)
        case "ignore-term":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        case "setsid":
            marker = sys.argv[2]
            subprocess.Popen(["setsid", "sleep", marker])
            subprocess.Popen(
                ["nohup", "sleep", marker],
                start_new_session=True,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        case "chatty":
            print("Welcome to my server!\nListening on stdio")
        case "tty-start":
            with open("/dev/tty", "w+") as terminal:
                terminal.readline()


def main() -> None:
    """Listen until the input ends."""
    begin()
    for line in sys.stdin:
        message = json.loads(line)
        if os.environ.get("RAW_TRACE"):
            with open(os.environ["RAW_TRACE"], "a") as trace:
                trace.write(
                    json.dumps(
                        {
                            "method": message.get("method"),
                            "pid": os.getpid(),
                            **(
                                {"params": message["params"]}
                                if "cancel" in str(message.get("method"))
                                else {}
                            ),
                        }
                    )
                    + "\n"
                )
        id_, params = message.get("id"), message.get("params") or {}
        match message.get("method"):
            case "initialize":
                if MODE == "bad-version":
                    send(
                        {
                            "id": id_,
                            "result": {
                                "protocolVersion": "1999-01-01",
                                "capabilities": {},
                                "serverInfo": {"name": "r", "version": "1"},
                            },
                        }
                    )
                    continue
                capabilities = {"tools": {"listChanged": True}}
                send(
                    {
                        "id": id_,
                        "result": {
                            "protocolVersion": "2025-06-18",
                            "capabilities": capabilities,
                            "serverInfo": {"name": "raw", "version": "1"},
                        },
                    }
                )
            case "tools/list":
                send({"id": id_, "result": listed(params)})
            case "tools/call":
                call(id_, params)
            case "server/discover" if MODE == "dies-at-discover":
                os._exit(1)
            case _ if id_ is not None:
                send({"id": id_, "error": {"code": -32601, "message": "Method not found"}})
    if MODE in ("ignore-term", "ignore-end"):
        time.sleep(1000)


if __name__ == "__main__":
    main()
