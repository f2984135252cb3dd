"""An MCP server written by hand, without the SDK: what it does wrong is said by its first argument."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

from raw_lists import listed  # type: ignore[import-not-found]  # beside this file, which is run by itself

MODE = sys.argv[1] if len(sys.argv) > 1 else "fine"
TEXT = {"content": [{"type": "text", "text": "never seen"}]}


def send(message: dict[str, Any]) -> None:
    """One message."""
    sys.stdout.buffer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    sys.stdout.buffer.flush()


def raw(data: bytes) -> None:
    """Any bytes."""
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def call(id_: Any, params: dict[str, Any]) -> None:
    """Answer a call, or do what it should not."""
    text = str(params.get("arguments", {}).get("text", ""))
    instead()
    odd = answer(id_, text)
    if odd is not None:
        raw(odd)
        return
    before(id_, params.get("_meta", {}).get("progressToken"))
    if MODE not in ("never", "wrong-id"):
        text = (
            json.dumps({n.decode(): v.decode() for n, v in os.environb.items()})
            if MODE == "environ"
            else text
        )
        send({"id": id_, "result": {"content": [{"type": "text", "text": text}]}})


def instead() -> None:
    """End, or print without end."""
    match MODE:
        case "die":
            print("about to die of a broken heart", file=sys.stderr, flush=True)
            os._exit(3)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "stdin-deaf":
            time.sleep(1000)
        case "flood":
            params = {"level": "info", "data": "x" * 900}
            line = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": params})
            while True:
                raw((line + "\n").encode() * 50)
        case "flood-text":
            while True:
                raw(b"not a message at all, only talk\n" * 2000)
        case "flood-stderr":
            while True:
                os.write(2, b"complaint " * 5000)
        case "flood-one-line":
            while True:
                raw(b"{" + b'"x":' * 20_000)


def answer(id_: Any, text: str) -> bytes | None:
    """An answer that is wrong in some way; None for a mode whose answers are right."""
    content = [{"type": "text", "text": text}]
    match MODE:
        case "text-id":
            return line(str(id_), result={"content": content})
        case "half":
            return line(id_, result={"content": content})[:40] + b"\n"
        case "lies":
            return line(id_, result={"content": content, "structuredContent": {"n": "three"}})
        case "bad-result":
            return line(id_, result={"content": [{"type": "hologram", "x": 1}, 5]})
        case "is-error":
            told = [{"type": "text", "text": "disk on fire"}]
            return line(id_, result={"content": told, "isError": True})
        case "refuse":
            return line(id_, error={"code": -32602, "message": "no such thing, try another"})
        case "surrogate":
            return line(id_, result={"content": [{"type": "text", "text": "a\ud800b"}]})
        case "huge-progress":
            wild = '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%d,"progress":%s}}\n'
            lines = "".join(wild % (id_, number) for number in ("9" * 400, '"x"', "[]"))
            return lines.encode() + line(id_, result={"content": content})
        case "deep":
            return b'{"jsonrpc":"2.0","id":%d,"result":%s}\n' % (id_, b"[" * 100_000 + b"]" * 100_000)
    return None


def line(id_: Any, **members: Any) -> bytes:
    """An answer."""
    return json.dumps({"jsonrpc": "2.0", "id": id_, **members}).encode() + b"\n"


def before(id_: Any, token: Any) -> None:
    """What comes before an answer, or in its place."""
    match MODE:
        case "wrong-id":
            send({"id": 999_999, "result": TEXT})
            send({"id": "abc", "result": TEXT})
        case "id-types":
            for odd in (None, 1.5, [id_], {"a": 1}, True):
                send({"id": odd, "result": TEXT})
        case "binary":
            raw(bytes(range(256)) * 100 + b"\n\xff\xfe{}\n\0\0\n")
        case "late":
            time.sleep(0.3)
        case "tty":
            with open("/dev/tty", "w+") as terminal:
                terminal.write("Password: ")
                terminal.readline()
        case "progress":
            for n in range(1, 4):
                told = {"progressToken": token, "progress": n, "total": 3, "message": f"step {n}"}
                send({"method": "notifications/progress", "params": told})
        case "slow-progress":
            for n in range(1, 14):
                send({"method": "notifications/progress", "params": {"progressToken": token, "progress": n}})
                time.sleep(0.5)


def begin() -> None:
    """What it does before it listens."""
    match MODE:
        case "hang":
            time.sleep(1000)
        case "exit":
            print("cannot find my configuration", file=sys.stderr, flush=True)
            sys.exit(7)
        case "exit-told":
            print("my key is", os.environb[b"SHOP_API_KEY"].decode(), file=sys.stderr, flush=True)
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


def trace(message: dict[str, Any]) -> None:
    """Write down what was asked, where the last argument names a file for it."""
    if sys.argv[-1].endswith("trace"):
        with open(sys.argv[-1], "a") as written:
            meta = (message.get("params") or {}).get("_meta")
            written.write(
                json.dumps({"method": message.get("method"), "pid": os.getpid(), "meta": meta}) + "\n"
            )


def reply(id_: Any, method: str | None, params: dict[str, Any]) -> None:
    """Answer one request."""
    match method:
        case "initialize":
            version = "1999-01-01" if MODE == "bad-version" else "2025-06-18"
            told = {"protocolVersion": version, "capabilities": {"tools": {"listChanged": True}}}
            send({"id": id_, "result": {**told, "serverInfo": {"name": "raw", "version": "1"}}})
        case "tools/list":
            send({"id": id_, "result": listed(MODE, params)})
        case "tools/call":
            call(id_, params)
        case "server/discover" if MODE == "dies-at-discover":
            os._exit(1)
        case _ if id_ is not None:
            send({"id": id_, "error": {"code": -32601, "message": "Method not found"}})


def main() -> None:
    """Listen until the input ends."""
    begin()
    for text in sys.stdin:
        message = json.loads(text)
        trace(message)
        reply(message.get("id"), message.get("method"), message.get("params") or {})
    if MODE in ("ignore-term", "ignore-end"):
        time.sleep(1000)


if __name__ == "__main__":
    main()
