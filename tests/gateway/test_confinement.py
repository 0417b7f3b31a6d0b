"""A process that handles clients' input has no right to open, create, start, signal or change anything."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

FILES = Path(__file__).parents[2] / "files"
ATTEMPTS = """
import ctypes, json, mmap, os, resource, signal, socket, sys, threading, time
from gateway.confinement import confine

libc = ctypes.CDLL(None, use_errno=True)
parent, end = os.getppid(), socket.socketpair()[0]


def call(function, *words):
    if function(*words) < 0:
        raise OSError(ctypes.get_errno(), "")


attempts = {
    "read a file": lambda: os.open("/etc/passwd", os.O_RDONLY),
    "write a file": lambda: os.open("/tmp/enginehouse-written", os.O_WRONLY | os.O_CREAT),
    "remove a file": lambda: os.unlink("/tmp/enginehouse-written"),
    "list a directory": lambda: os.listdir("/"),
    "read a file's status": lambda: os.stat("/"),
    "make a network socket": lambda: socket.socket(socket.AF_INET),
    "make a local socket": lambda: socket.socket(socket.AF_UNIX),
    "make a pair of sockets": socket.socketpair,
    "send a descriptor": lambda: socket.send_fds(end, [b"x"], [0]),
    "send to an address": lambda: end.sendto(b"x", "/run/systemd/notify"),
    "make a pipe": os.pipe,
    "copy a descriptor": lambda: os.dup(0),
    "make a file in memory": lambda: os.memfd_create("x"),
    "fork": os.fork,
    "start a program": lambda: os.execv("/bin/true", ["true"]),
    "signal its parent": lambda: os.kill(parent, signal.SIGTERM),
    "signal itself": lambda: os.kill(os.getpid(), signal.SIGTERM),
    "limit its parent": lambda: resource.prlimit(parent, resource.RLIMIT_NOFILE, (1, 1)),
    "trace its parent": lambda: call(libc.ptrace, 16, parent, 0, 0),
    "read its parent's memory": lambda: call(libc.process_vm_readv, parent, 0, 0, 0, 0, 0),
    "change its own flags": lambda: call(libc.prctl, 4, 1, 0, 0, 0),
    "make a ring of io_uring": lambda: call(libc.syscall, 425, 1, 0),
    "make memory executable": lambda: mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC),
}
confine()
answers = {}
for name, attempt in attempts.items():
    try:
        attempt()
        answers[name] = "done"
    except OSError as error:
        answers[name] = error.errno
try:
    threading.Thread(target=print).start()
    answers["start a thread"] = "done"
except RuntimeError:
    answers["start a thread"] = 1
sum(bytes(2**26))
time.sleep(0.001)
signal.setitimer(signal.ITIMER_PROF, 60)
print(json.dumps(answers))
"""
UNIT = """
import ctypes, os, sys
import gateway.confinement as ours

library = ctypes.CDLL(ours.LIBRARY)
library.seccomp_init.restype = ctypes.c_void_p
rules = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(ours.ALLOW)))
for name, comparisons in {
    b"seccomp": [],
    b"memfd_create": [],
    b"mmap": [ours.Comparison(2, ours.MASKED_EQUAL, 6, 6)],
    b"mprotect": [ours.Comparison(2, ours.MASKED_EQUAL, 4, 4)],
}.items():
    number, array = library.seccomp_syscall_resolve_name(name), (ours.Comparison * len(comparisons))(*comparisons)
    assert library.seccomp_rule_add_array(rules, ctypes.c_uint32(ours.ERRNO | 1), number, len(comparisons), array) == 0
assert library.seccomp_load(rules) == 0
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
"""Runs Python as the gateway's unit does: @system-service has no seccomp(2), MemoryDenyWriteExecute=yes."""


THREADED = """
import threading
from gateway.confinement import confine

threading.Thread(target=threading.Event().wait, daemon=True).start()
confine()
"""


def run(*words: str) -> subprocess.CompletedProcess[str]:
    words = (sys.executable, *words)
    environment = {"PYTHONPATH": str(FILES)}
    return subprocess.run(words, capture_output=True, text=True, check=False, env=environment, timeout=60)


@pytest.mark.parametrize("before", [[], ["-c", UNIT]], ids=["bare", "in the unit's own filter"])
def test_a_confined_process_can_only_compute_and_answer(before: list[str]) -> None:
    ran = run(*before, "-c", ATTEMPTS)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert {name: answer for name, answer in json.loads(ran.stdout).items() if answer != 1} == {}


def test_a_process_with_threads_is_never_confined_partly() -> None:
    ran = run("-c", THREADED)
    assert ran.returncode == 1
    assert "the process has 2 threads; a filter restricts only the calling thread" in ran.stderr
