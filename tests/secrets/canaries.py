"""Secrets made for the tests, put together here so that no file of the repository looks as if it held one."""

from __future__ import annotations

import sqlite3
from pathlib import Path

VALUE = "Canary" + "-4711-" + "Quux9"
"""What a variable holds whose name says that it is secret."""
LETTERS = "aB3dE5fG7hJ9kL2mN4pQ6rS8tU1vW3xY5zA7bC9d"

SHAPES = {
    "key": "sk-" + "ant-api03-" + LETTERS + "_-" + LETTERS,
    "github": "ghp" + "_" + LETTERS[:36],
    "github pat": "github" + "_pat_" + LETTERS + "_" + LETTERS,
    "gitlab": "glpat" + "-" + LETTERS[:20],
    "slack": "xoxb" + "-123456789012-" + LETTERS,
    "aws": "AKIA" + "QW3RTY7UIOP9ASDF",
    "google": "AIza" + LETTERS[:35],
    "huggingface": "hf" + "_" + LETTERS[:34],
    "groq": "gsk" + "_" + LETTERS,
    "npm": "npm" + "_" + LETTERS[:36],
    "pypi": "pypi" + "-AgEIcHlwaS5vcmc" + LETTERS + LETTERS,
    "sendgrid": "SG" + "." + LETTERS[:22] + "." + LETTERS,
    "oauth": "ya29" + "." + LETTERS,
    "client": "GOCSPX" + "-" + LETTERS[:28],
    "webhook": "whsec" + "_" + LETTERS[:32],
    "live": "sk" + "_live_" + LETTERS[:24],
    "hook": "https://hooks.slack" + ".com/services/T00000000/B00000000/" + LETTERS[:24],
    "jwt": "eyJhbGciOiJIUzI1NiJ9" + "." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0" + "." + LETTERS,
    "pem": "-----BEGIN RSA PRIVATE"
    " KEY-----\n" + (LETTERS + LETTERS[:24] + "\n") * 12 + "-----END RSA PRIVATE" + " KEY-----",
    "openssh": "-----BEGIN OPENSSH PRIVATE"
    " KEY-----\n" + (LETTERS + "\n") * 4 + "-----END OPENSSH PRIVATE" + " KEY-----",
}
"""One of each well-known shape."""
PASSWORD = "hUnter2" + "-Xyz9"
ADDRESS = "postgres://app:" + PASSWORD + "@db.example/prod"
CORE = LETTERS[:12]
"""In every one of `SHAPES` but that of AWS."""


def everywhere(root: Path) -> dict[str, bytes]:
    """Every file below a directory, and each row of a database in it as SQLite reads it, `-wal` included."""
    held = {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    for path in root.rglob("*.db"):
        connection = sqlite3.connect(path)
        held[f"{path}:rows"] = "\n".join(connection.iterdump()).encode("utf-8", "replace")
        connection.close()
    return held


def leaks(root: Path, *secrets: str) -> list[str]:
    """The files below a directory in which one of the secrets stands."""
    return [
        name for name, data in everywhere(root).items() if any(secret.encode() in data for secret in secrets)
    ]
