"""Executes a program with a secret in an argument that no process list shows: hidden.py FILE PROGRAM WORD…

Triton takes the key of its restricted APIs on its command line only, and every user of a host may read that in
/proc/PID/cmdline. So the kernel gets each WORD with `@KEY@` unchanged, and an environment variable with FILE's content
in place of `@KEY@`; only root and the program's user can read it. A short-lived child process traces the exec. Before
the program's first instruction, it points the argument to the variable's text.

The process id stays the same. If tracing fails, the program is not started.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

MARK = "@KEY@"
VARIABLE = "ENGINEHOUSE_ARGUMENT_{}"
# include/uapi/linux/ptrace.h and prctl.h
SEIZE, CONTINUE, DETACH, POKE = 0x4206, 7, 17, 5
TRACE_EXEC, EXIT_KILL, EVENT_EXEC = 0x10, 0x100000, 4
SET_TRACER = 0x59616D61
WAIT_ALL = 0x40000000
WORD = 8
"""Bytes of a pointer."""

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
libc.ptrace.restype = ctypes.c_long
libc.prctl.argtypes = (ctypes.c_int, *[ctypes.c_ulong] * 4)


def main(words: list[str]) -> int:
    """Starts the program; returns only if it does not start."""
    key, program, *rest = words
    value = Path(key).read_text().strip()
    environment = dict(os.environ)
    for number, word in enumerate(word for word in rest if MARK in word):
        environment[VARIABLE.format(number)] = word.replace(MARK, value)
    answer, answered = os.pipe()
    question, asks = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if not child:
        os.close(asks)
        os.read(question, 1)
        trace(parent, answered)
    libc.prctl(SET_TRACER, child, 0, 0, 0)  # needed if Yama lets only ancestors trace; fails with EINVAL otherwise
    os.close(answered)
    os.write(asks, b"x")
    if not os.read(answer, 1):
        print("the server's key cannot be kept out of the list of processes, so nothing starts", file=sys.stderr)
        print("  wanted  ptrace of a process's own child; kernel.yama.ptrace_scope is at most 1", file=sys.stderr)
        print("  try     sysctl kernel.yama.ptrace_scope=1, on the host", file=sys.stderr)
        return 1
    os.execvpe(program, [program, *rest], environment)


def trace(process: int, answered: int) -> None:
    """Traces the exec, then ends this process. The traced process continues with the secret, or is killed on a
    failure."""
    if libc.ptrace(SEIZE, process, None, TRACE_EXEC | EXIT_KILL) < 0:
        os._exit(1)
    os.write(answered, b"x")
    while True:
        _, status = os.waitpid(process, WAIT_ALL)
        if not os.WIFSTOPPED(status):
            os._exit(1)
        if status >> 8 == signal.SIGTRAP | EVENT_EXEC << 8:
            point(process)
            libc.ptrace(DETACH, process, None, None)
            os._exit(0)
        libc.ptrace(CONTINUE, process, None, 0 if status >> 16 else os.WSTOPSIG(status))


def point(process: int) -> None:
    """Points every argument with the mark to its variable. The new stack has a count, arguments, then variables."""
    start = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[25])
    with Path(f"/proc/{process}/mem").open("rb", buffering=0) as memory:
        count = number_at(memory.fileno(), start)
        arguments = [start + WORD * (1 + index) for index in range(count)]
        place, variables = arguments[-1] + 2 * WORD, dict[bytes, int]()
        while address := number_at(memory.fileno(), place):
            name = text_at(memory.fileno(), address).partition(b"=")[0]
            variables[name] = address + len(name) + 1
            place += WORD
        marked = [at for at in arguments if MARK.encode() in text_at(memory.fileno(), number_at(memory.fileno(), at))]
    for number, at in enumerate(marked):
        if libc.ptrace(POKE, process, at, variables[VARIABLE.format(number).encode()]) < 0:
            os._exit(1)


def number_at(memory: int, address: int) -> int:
    """The 64-bit number at this address."""
    return int.from_bytes(os.pread(memory, WORD, address), sys.byteorder)


def text_at(memory: int, address: int) -> bytes:
    """The text from this address up to the next zero byte."""
    text = b""
    while b"\0" not in text:
        text += os.pread(memory, 256, address + len(text)) or b"\0"
    return text.partition(b"\0")[0]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
