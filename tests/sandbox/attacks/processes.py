"""Attacks on processes outside."""

from __future__ import annotations

import ctypes
import os
import resource
import signal

from tests.sandbox.attacks.table import World, attack, call


@attack(victim=True)
def kill(w: World) -> object:
    os.kill(w.victim, signal.SIGKILL)
    return None


@attack(victim=True)
def stop(w: World) -> object:
    os.kill(w.victim, signal.SIGSTOP)
    return None


@attack(victim=True)
def kill_group(w: World) -> object:
    os.killpg(w.victim, signal.SIGKILL)
    return None


@attack(victim=True)
def kill_by_descriptor(w: World) -> object:
    handle = call(434, 434, w.victim, 0)
    call(424, 424, handle, int(signal.SIGKILL), None, 0)
    return None


@attack(victim=True)
def queue_signal(w: World) -> object:
    info = ctypes.create_string_buffer(128)
    ctypes.memmove(info, (ctypes.c_int * 3)(int(signal.SIGTERM), 0, -1), 12)
    call(129, 138, w.victim, int(signal.SIGTERM), info)
    return None


@attack(victim=True)
def limits(w: World) -> object:
    resource.prlimit(w.victim, resource.RLIMIT_NOFILE, (7, 7))
    return True


@attack(victim=True)
def priority(w: World) -> object:
    os.setpriority(os.PRIO_PROCESS, w.victim, 19)
    return True


@attack(victim=True)
def processors(w: World) -> object:
    os.sched_setaffinity(w.victim, os.sched_getaffinity(w.victim))
    return True


@attack(victim=True)
def memory_killer(w: World) -> object:
    with open(f"/proc/{w.victim}/oom_score_adj", "w") as file:
        file.write("999")
    return True


@attack("root")
def namespaces_of_process(w: World) -> object:
    fd = os.open(f"/proc/{w.witness}/ns/mnt", os.O_RDONLY)
    call(308, 268, fd, 0x00020000)
    with open(w.canary, "w") as file:
        file.write("harmed")
    return None


@attack("root")
def namespaces_by_descriptor(w: World) -> object:
    handle = call(434, 434, w.witness, 0)
    call(308, 268, handle, 0x04000000)
    return True


@attack("root")
def host_name(w: World) -> object:
    import socket

    socket.sethostname(socket.gethostname())
    return os.path.exists(f"/proc/{w.witness}/ns/uts")


@attack("root")
def control_group(w: World) -> object:
    os.mkdir(f"{w.cgroup}/jaato-attack")
    os.rmdir(f"{w.cgroup}/jaato-attack")
    return True
