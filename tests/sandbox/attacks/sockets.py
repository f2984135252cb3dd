"""Attacks by sockets."""

from __future__ import annotations

import os
import socket

from tests.sandbox.attacks.table import World, attack

WITHIN_S = 1.0


def reach(family: int, kind: int, address: object, text: str) -> None:
    """Send a text to an address."""
    with socket.socket(family, kind) as one:
        one.settimeout(WITHIN_S)
        one.connect(address)  # type: ignore[arg-type]
        one.sendall(text.encode())


@attack()
def abstract_socket(w: World) -> object:
    reach(socket.AF_UNIX, socket.SOCK_STREAM, w.abstract, w.name)
    return None


@attack()
def agent_socket(w: World) -> object:
    """A socket with a path, where the sandbox shows files read-only: as an agent of ssh has it."""
    reach(socket.AF_UNIX, socket.SOCK_STREAM, w.stream_path, w.name)
    return None


@attack()
def datagram_socket(w: World) -> object:
    reach(socket.AF_UNIX, socket.SOCK_DGRAM, w.datagram_path, w.name)
    return None


@attack("root")
def daemon_socket(w: World) -> object:
    """A socket below /run, as docker has it."""
    reach(socket.AF_UNIX, socket.SOCK_STREAM, w.run_path, w.name)
    return None


@attack()
def loopback(w: World) -> object:
    reach(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", w.tcp_port), w.name)
    return None


@attack()
def loopback_6(w: World) -> object:
    reach(socket.AF_INET6, socket.SOCK_STREAM, ("::ffff:127.0.0.1", w.tcp_port), w.name)
    return None


@attack()
def datagram_out(w: World) -> object:
    reach(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", w.udp_port), w.name)
    return None


@attack()
def name_server(w: World) -> object:
    """A question to a name server, which carries what one likes."""
    question = b"\x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x0bname_server\x04test\x00\x00\x01\x00\x01"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.sendto(question, ("127.0.0.1", w.udp_port))
    return None


@attack()
def interfaces(w: World) -> object:
    """Whether more than a loopback of its own can be seen."""
    return w.interface in [name for _, name in socket.if_nameindex()]


@attack()
def route_out(w: World) -> object:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.connect((w.machine_address, 9))
        return bool(one.getsockname()[0] == w.machine_address)


@attack("root")
def raw_socket(w: World) -> object:
    socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).close()
    return True


@attack("root")
def packet_socket(w: World) -> object:
    socket.socket(17, socket.SOCK_RAW, 0).close()
    return True


@attack()
def virtual_machine_socket(w: World) -> object:
    """A socket to the machine that runs this one; no network namespace holds it."""
    socket.socket(40, socket.SOCK_STREAM).close()
    return True


@attack()
def events_of_devices(w: World) -> object:
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 15).close()
    return True


@attack("root")
def express_socket(w: World) -> object:
    socket.socket(44, socket.SOCK_RAW).close()
    return True


@attack()
def terminal_of_another(w: World) -> object:
    fd = os.open(w.terminal, os.O_WRONLY | os.O_NOCTTY)
    os.write(fd, w.name.encode())
    return True
