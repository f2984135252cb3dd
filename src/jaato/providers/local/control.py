"""The engine's own control socket: private to this process, and gone as soon as the model is loaded."""

from __future__ import annotations

import http.client
import json
import secrets
import shutil
import socket
import tempfile
from pathlib import Path
from types import TracebackType

TIMEOUT_S = 60.0


class Control:
    """A folder only this user can enter, with the engine's Unix socket, which wants a random key.

    The engine opens a listener whether it is wanted or not. On leaving, folder and socket are removed: from
    then on nobody can connect, and there is nothing to guard.
    """

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="jaato-"))
        self.socket_path = self.folder / "engine.sock"
        self.key = secrets.token_hex(32)

    def __enter__(self) -> Control:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def slot(self, action: str, name: str) -> bool:
        """Save or restore the prompt state under a file name in the folder; tells whether that worked."""
        connection = http.client.HTTPConnection("engine", timeout=TIMEOUT_S)
        connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.sock.settimeout(TIMEOUT_S)
        try:
            connection.sock.connect(str(self.socket_path))
            connection.request(
                "POST",
                f"/slots/0?action={action}",
                json.dumps({"filename": name}),
                {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"},
            )
            response = connection.getresponse()
            response.read()
            return response.status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
