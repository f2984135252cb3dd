"""Stores logins: in the system keyring, else in files only the user can read; one writer among processes."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Protocol

import anyio
import anyio.to_thread
import msgspec

from jaato.errors import ConfigError
from jaato.plugins.mcp.config import ServerConfig
from jaato.plugins.mcp.oauth.options import OAuthFault, Options, Record, options_of
from jaato.tools.filesystem.atomic import read_bounded, reason, write_private
from jaato.tools.network.addresses import AddressRefused, Url, parse_url
from jaato.typed_decoding import decode_json

SERVICE = "jaato-mcp"
MAX_BYTES = 1_048_576
POLL_S = 0.02


class Keyring(Protocol):
    """What is used of a system keyring."""

    def get_password(self, service: str, name: str) -> str | None: ...
    def set_password(self, service: str, name: str, secret: str) -> None: ...
    def delete_password(self, service: str, name: str) -> None: ...


def system_keyring() -> Keyring | None:
    """The keyring of the system, where `jaato[keyring]` is installed."""
    try:
        import keyring
    except ImportError:
        return None
    found: Keyring = keyring.get_keyring()
    return found


def name_of(server: Url, options: Options) -> str:
    """The name under which the logins of a server with its configured client are stored."""
    who = options.client_id or options.client_metadata_url or ""
    text = "\0".join((str(server), who, options.grant, options.issuer or ""))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


class TokenStore:
    """The logins of one user, a file each below `state_dir`; reading and writing happens in a thread."""

    def __init__(self, state_dir: Path, find_keyring: Callable[[], Keyring | None] = lambda: None) -> None:
        self.directory = state_dir / "mcp-logins"
        self.find_keyring = find_keyring

    async def read(self, name: str) -> Record | None:
        """The stored logins; None for none or a damaged file. Raises `ConfigError` for a file that others can read."""
        return await anyio.to_thread.run_sync(self._read, name)

    async def write(self, name: str, record: Record) -> None:
        """Store the logins. Raises `ConfigError` when the disk refuses."""
        await anyio.to_thread.run_sync(self._write, name, record)

    async def delete(self, name: str) -> None:
        """Delete the logins of this name."""
        await anyio.to_thread.run_sync(self._delete, name)

    async def set_login_needed(self, name: str, *, needed: bool) -> None:
        """Record whether a login is needed, for the state of a server; errors of the disk are ignored."""
        await anyio.to_thread.run_sync(self._set_login_needed, name, needed)

    def is_login_needed(self, name: str) -> bool:
        """Whether the last request to the server needed a login."""
        return self._require_path(name).exists()

    @contextlib.asynccontextmanager
    async def lock(self, name: str, purpose: str, within_s: float) -> AsyncIterator[None]:
        """Hold the lock of a login for one purpose, among tasks, threads and processes. Raises `OAuthFault` when it is
        not free in time."""
        import fcntl

        self._make_directory()
        path = self.directory / f".{name}.{purpose}"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            with anyio.move_on_after(within_s):
                while not try_lock(descriptor):  # noqa: ASYNC110 - a lock of another process sends no event
                    await anyio.sleep(POLL_S)
            if not try_lock(descriptor):
                raise OAuthFault(
                    f"Another jaato is busy with this login for more than {within_s:g} s; try again."
                )
            yield
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)

    def _make_directory(self) -> None:
        try:
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise ConfigError(f"{self.directory} cannot be made: {reason(error)}.") from None

    def _path(self, name: str) -> Path:
        return self.directory / f"{name}.json"

    def _require_path(self, name: str) -> Path:
        return self.directory / f"{name}.needed"

    def _set_login_needed(self, name: str, needed: bool) -> None:
        with contextlib.suppress(OSError, ConfigError):
            if needed:
                self._make_directory()
                self._require_path(name).touch(0o600)
            else:
                self._require_path(name).unlink(missing_ok=True)

    def _read(self, name: str) -> Record | None:
        path = self._path(name)
        try:
            state = path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {reason(error)}.") from None
        if not stat.S_ISREG(state.st_mode) or state.st_mode & 0o077:
            raise ConfigError(f"{path} can be read by others; run: chmod 600 {path}")
        content = read_bounded(path, MAX_BYTES)
        if content is None:
            return None
        try:
            if content.strip() == b'{"keyring": true}':
                kept = self._from_keyring(name)
                return None if kept is None else decode_json(kept, Record)
            return decode_json(content, Record)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None  # the next login replaces it

    def _write(self, name: str, record: Record) -> None:
        self._make_directory()
        content = msgspec.json.encode(record)
        if self._into_keyring(name, content.decode()):
            content = b'{"keyring": true}'
        try:
            write_private(self._path(name), content)
        except OSError as error:
            raise ConfigError(f"{self._path(name)} cannot be written: {reason(error)}.") from None

    def _delete(self, name: str) -> None:
        keyring = self.find_keyring()
        if keyring is not None:
            with contextlib.suppress(*keyring_errors()):
                keyring.delete_password(SERVICE, name)
        try:
            self._path(name).unlink(missing_ok=True)
            for left in self.directory.glob(f".{name}.json.*"):  # of a process that was killed as it wrote
                left.unlink(missing_ok=True)
        except OSError as error:
            raise ConfigError(f"{self._path(name)} cannot be removed: {reason(error)}.") from None

    def _into_keyring(self, name: str, secret: str) -> bool:
        keyring = self.find_keyring()
        if keyring is None:
            return False
        try:
            keyring.set_password(SERVICE, name, secret)
            return keyring.get_password(SERVICE, name) == secret
        except keyring_errors():
            return False

    def _from_keyring(self, name: str) -> str | None:
        keyring = self.find_keyring()
        if keyring is None:
            raise ConfigError("The login is in the system keyring; install it: pip install 'jaato[keyring]'")
        try:
            return keyring.get_password(SERVICE, name)
        except keyring_errors():
            raise ConfigError("The system keyring does not answer; unlock it, or log in again.") from None


def needs_login(config: ServerConfig, state_dir: Path) -> bool:
    """Whether a server, its variables filled in, is known to need a login that was not made."""
    if config.kind == "stdio" or any(name.lower() == "authorization" for name in config.headers):
        return False
    try:
        name = name_of(parse_url(config.url), options_of(config.oauth, config.name))
    except (AddressRefused, ConfigError):
        return False
    return TokenStore(state_dir).is_login_needed(name)


def keyring_errors() -> tuple[type[BaseException], ...]:
    """What a keyring raises when it does not work."""
    from keyring.errors import KeyringError

    return (KeyringError, RuntimeError, OSError)


def try_lock(descriptor: int) -> bool:
    """Try to take a file lock; returns whether that succeeded."""
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def open_store(state_dir: Path) -> TokenStore:
    """The store of this user, with the system keyring where there is one; it is looked for when first needed."""
    return TokenStore(state_dir, system_keyring)
