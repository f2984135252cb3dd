"""Real programs behind the proxy, against a server of real TLS: what was granted works, what was not says so."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import json
import shutil
import ssl
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.network.running import OUTSIDE, Session, granted, web
from tests.shell.running import Shell

from jaato.tools.call import Call
from jaato.tools.processes.sandbox.sandbox import Sandbox


@pytest.fixture
def site(
    session: Session, tmp_path_factory: pytest.TempPathFactory, authority: tuple[str, ssl.SSLContext]
) -> Iterator[int]:
    """The port of a server over TLS with a page, a package index, a registry of npm and a git repository."""
    folder = tmp_path_factory.mktemp("site")
    (session.workspace / "ca.pem").write_text(authority[0])
    (folder / "page").write_text("hello")
    with web(folder, authority[1]) as port:
        wheel(folder)
        package(folder, port)
        repository(folder)
        yield port


def wheel(folder: Path) -> None:
    """A package index with one wheel."""
    place = folder / "simple" / "tiny"
    place.mkdir(parents=True)
    name = "tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(place / name, "w") as made:
        made.writestr("tiny.py", "")
        made.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        made.writestr(
            "tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        made.writestr("tiny-1.0.dist-info/RECORD", "")
    (place / "index.html").write_text(f'<a href="{name}">{name}</a>')


def package(folder: Path, port: int) -> None:
    """A registry of npm with one package."""
    data = io.BytesIO()
    manifest = json.dumps({"name": "tiny", "version": "1.0.0"}).encode()
    with tarfile.open(fileobj=data, mode="w:gz") as made:
        entry = tarfile.TarInfo("package/package.json")
        entry.size = len(manifest)
        made.addfile(entry, io.BytesIO(manifest))
    (folder / "tiny.tgz").write_bytes(data.getvalue())
    digest = base64.b64encode(hashlib.sha512(data.getvalue()).digest()).decode()
    dist = {"tarball": f"https://{OUTSIDE}:{port}/tiny.tgz", "integrity": f"sha512-{digest}"}
    known = {"name": "tiny", "version": "1.0.0", "dist": dist}
    (folder / "tiny").write_text(
        json.dumps({"name": "tiny", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": known}})
    )


def repository(folder: Path) -> None:
    """A git repository as files, for the simplest of its protocols."""
    lines = (
        ["init", "-q", "-b", "main", "work"],
        [
            "-C",
            "work",
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "commit",
            "-q",
            "--allow-empty",
            "-m",
            "first",
        ],
        ["clone", "-q", "--bare", "work", "repo.git"],
        ["-C", "repo.git", "update-server-info"],
    )
    for line in lines:
        subprocess.run(["git", *line], cwd=folder, check=True, capture_output=True)


PYTHON = shutil.which("python3", path="/usr/bin") or sys.executable
URL = "https://{host}:{port}"  # filled in later
PROGRAMS = {
    "curl": f"curl -sS --cacert ca.pem {URL}/page",
    "urllib": f"SSL_CERT_FILE=ca.pem {PYTHON} -c 'import urllib.request as u; print(u.urlopen(\"{URL}/page\").read())'",
    "pip": f"SSL_CERT_FILE=ca.pem REQUESTS_CA_BUNDLE=ca.pem {sys.executable} -m pip --isolated download --no-deps "
    f"--retries 0 --cert ca.pem --index-url {URL}/simple tiny && echo hello",
    "git": f"GIT_SSL_CAINFO=ca.pem git clone -q {URL}/repo.git cloned && "
    "git -C cloned log --format=%s | sed s/first/hello/",
    "npm": "npm install --cache=c$RANDOM --no-audit --no-fund --fetch-retries=0 --cafile=ca.pem "
    f"--registry={URL} tiny && test -e node_modules/tiny && echo hello",
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_reaches_what_was_granted(session: Session, site: int, program: str) -> None:
    """With the host granted the program does its work over TLS that nobody takes apart; without, it fails."""
    if program == "npm" and shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    line = PROGRAMS[program].format(host=OUTSIDE, port=site)

    async def main() -> None:
        done = await session.run(line, granted(f"{OUTSIDE}:{site}"))
        assert "hello" in done.output, done.output
        assert done.refused == []
        shutil.rmtree(session.workspace / "cloned", ignore_errors=True)
        shutil.rmtree(session.workspace / "node_modules", ignore_errors=True)
        other = await session.run(line, granted("other.example"))
        assert "hello" not in other.output
        assert other.refused == [f"{OUTSIDE}:{site}"]
        assert "hello" not in (await session.run(line)).output

    asyncio.run(main())


def test_each_call_has_hosts_of_its_own(session: Session, site: int) -> None:
    """Of two commands at the same time one reaches the host and one does not; the credentials of the first are worth
    nothing when it is over, and a read-only command has none."""
    line = PROGRAMS["curl"].format(host=OUTSIDE, port=site)
    wait = f"echo ready; {line}; while [ ! -e go ]; do sleep 0.05; done; {line}"

    async def main() -> None:
        here = granted(f"{OUTSIDE}:{site}")
        async with session.background(f"echo $https_proxy; {wait}", here, until="hello") as first:
            other = await session.run(f"{line}; env", granted("other.example"))
            assert other.code == 0
            assert "hello" not in other.output
            assert other.refused == [f"{OUTSIDE}:{site}"]
            (session.workspace / "go").touch()
            ended = await first
            assert ended.output.count("hello") == 2
            assert ended.refused == []
        stolen = ended.output.splitlines()[0]
        assert stolen.startswith("http://call:")
        late = await session.run(f"https_proxy={stolen} {line}", granted("other.example"))
        assert "407" in late.output
        environ = {
            **session.environ,
            "HTTPS_PROXY": "http://user:secret@corp.example:3128",
            "all_proxy": "socks5://x",
        }
        session.environ = environ
        for access in (granted(), None):
            shown = (await session.run("env", access)).output.lower()
            assert ("secret" in shown) == (access is None)
            assert ("call:" in shown) is False

    asyncio.run(main())


def test_a_program_that_runs_on_keeps_its_hosts(session: Session, site: int) -> None:
    """A connection of a command that is stopped ends with it, while the command of another call goes on."""
    here = granted(f"{OUTSIDE}:{site}")
    line = PROGRAMS["curl"].format(host=OUTSIDE, port=site)

    async def main() -> None:
        async with session.background(
            f"while sleep 0.1; do {line} || echo lost; done", here, until="hello"
        ) as first:
            for _ in range(3):
                assert (await session.run(line, here)).output == "hello"
            assert not first.done()
            first.cancel()
            await asyncio.wait([first])
        proxy = session.sandbox._networks._networks["s1"]._proxy
        assert proxy is not None
        assert len(proxy.grants) == 0
        async with asyncio.timeout(60):
            while proxy.connections:
                await asyncio.sleep(0.01)

    asyncio.run(main())


def test_the_result_of_run_names_refused_hosts(tmp_path: Path) -> None:
    """The model reads which hosts a command asked for in vain; nothing where none was."""
    shell = Shell(tmp_path)
    shell.plugin.sandbox = Sandbox(tmp_path, environ={}, allow_hosts=[OUTSIDE])
    try:
        for access, refused in (
            (granted("*"), ["10.1.1.1:443"]),
            (granted("pypi.org"), ["10.1.1.1:443"]),
            (granted(), None),
        ):
            call = Call("call-1", "run", {}, workspace=tmp_path, access=access)
            assert shell.run("curl -sS -m 5 https://10.1.1.1/", call=call).get("refused") == refused
    finally:
        shell.plugin.shutdown()
        shell.plugin.sandbox.close()
