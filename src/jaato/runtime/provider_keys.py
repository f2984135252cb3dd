"""Provider keys that were saved: in the system keyring, else in a file only the user can read."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

from jaato.errors import ConfigError
from jaato.settings import Settings
from jaato.tools.filesystem.atomic import write_private

SERVICE = "jaato"
MAX_BYTES = 100_000


def keys_file(settings: Settings) -> Path:
    """Where keys are noted."""
    return settings.config_dir / "keys.json"


def read_keys(path: Path) -> dict[str, Any]:
    """The notes about keys; raises `ConfigError` for a file that others can read or that is damaged."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode) or found.st_mode & 0o077:
            raise ConfigError(f"{path} can be read by others; run: chmod 600 {path}")
        data = path.read_bytes()[:MAX_BYTES]
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from None
    try:
        keys = json.loads(data)
    except (ValueError, RecursionError):
        raise ConfigError(f"{path} is damaged; remove it and run `jaato login` again.") from None
    return keys if isinstance(keys, dict) else {}


def load_key(settings: Settings, provider: str) -> str | None:
    """The saved key of a provider, or None."""
    entry = read_keys(keys_file(settings)).get(provider)
    match entry:
        case {"key": str(key)}:
            return key
        case {"keyring": True}:
            found = from_keyring(provider)
            if found:
                settings.learned[f"{provider}.key"] = found
            return found
    return None


def from_keyring(provider: str) -> str | None:
    """The key in the system keyring."""
    try:
        import keyring
        from keyring.errors import KeyringError
    except ImportError:
        raise ConfigError(
            "The key is in the system keyring; install it: pip install 'jaato[keyring]'"
        ) from None
    try:
        return keyring.get_password(SERVICE, provider)
    except KeyringError as error:
        raise ConfigError(
            f"The system keyring does not answer: {error}. Unlock it or run `jaato login` again."
        ) from None


def save_key(settings: Settings, provider: str, key: str) -> str:
    """Save a key; says where it went."""
    where = "the system keyring" if into_keyring(provider, key) else str(keys_file(settings))
    path = keys_file(settings)
    keys = read_keys(path)
    keys[provider] = {"keyring": True} if where == "the system keyring" else {"key": key}
    write_keys(path, keys)
    return where


def forget_key(settings: Settings, provider: str) -> bool:
    """Forget a saved key; whether there was one."""
    path = keys_file(settings)
    keys = read_keys(path)
    entry = keys.pop(provider, None)
    if entry is None:
        return False
    if isinstance(entry, dict) and entry.get("keyring"):
        import keyring
        from keyring.errors import KeyringError

        try:
            keyring.delete_password(SERVICE, provider)
        except KeyringError:
            pass  # it was gone already
    write_keys(path, keys)
    return True


def close_to_others(path: Path) -> bool:
    """Make a file of keys private; whether others could read it until now. Raises `ConfigError` where that fails."""
    try:
        found = path.lstat()
        is_open = stat.S_ISREG(found.st_mode) and bool(found.st_mode & 0o077)
        if is_open:
            path.chmod(0o600)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise ConfigError(f"{path} cannot be made private: {error.strerror}.") from None
    return is_open


def into_keyring(provider: str, key: str) -> bool:
    """Put a key into the system keyring, where there is one that works."""
    try:
        import keyring
        from keyring.errors import KeyringError
    except ImportError:
        return False
    try:
        keyring.set_password(SERVICE, provider, key)
        return keyring.get_password(SERVICE, provider) == key
    except (KeyringError, RuntimeError):
        return False


def write_keys(path: Path, keys: dict[str, Any]) -> None:
    """Replace the notes about keys. Raises `ConfigError`."""
    try:
        write_private(path, json.dumps(keys, indent=1).encode())
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}.") from None
