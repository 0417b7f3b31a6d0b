"""Restricts a process to computing and to answering on files that are already open.

A process that works on foreign input calls `confine` after its imports. From then on the kernel answers EPERM to every
system call outside `ALLOWED`: the process cannot open files, make sockets, start programs, signal, trace or limit
processes, or make memory executable. The answer is EPERM and not a kill: a library that looks for an optional file gets
an error that it handles, and a client's request does not end the process. System calls of a foreign architecture (32
bits, x32) kill it, because no library here makes them.

libseccomp builds the filter: systemd itself needs it, so every host has it; it knows the numbers of system calls on
each architecture, and distributions maintain it. Its Python binding belongs to the distribution's own Python, not to
this environment of locked wheels, so its five functions are called through ctypes. Inside the gateway's unit seccomp(2)
itself is refused, and libseccomp loads the filter by prctl(2).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import resource
from collections.abc import Iterator

LIBRARY = "libseccomp.so.2"
ALLOWED = (
    *("read", "write", "poll", "ppoll", "close"),
    *("brk", "munmap", "madvise", "mremap"),
    *("clock_gettime", "clock_getres", "gettimeofday", "time", "nanosleep", "clock_nanosleep"),
    *("setitimer", "getitimer", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack", "restart_syscall"),
    *("futex", "getrandom", "sched_yield", "getpid", "gettid", "exit", "exit_group"),
)
PROT_EXEC = 4
ZERO_ARGUMENTS = {
    "mmap": (2, PROT_EXEC),
    "mprotect": (2, PROT_EXEC),
    "sendto": (4, 2**64 - 1),
    "recvfrom": (4, 2**64 - 1),
}
"""System calls that are allowed if these bits of this argument are 0: memory is not executable, `send` and `recv` name
no address."""

# include/seccomp.h of libseccomp 2.5, whose values are part of its ABI (read 2026-11-25).
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
MASKED_EQUAL = 7
UNKNOWN = -1


class Comparison(ctypes.Structure):
    """libseccomp's struct scmp_arg_cmp: `datum_a` is the mask, `datum_b` the value, of MASKED_EQUAL."""

    _fields_ = (
        ("argument", ctypes.c_uint),
        ("operator", ctypes.c_int),
        ("datum_a", ctypes.c_uint64),
        ("datum_b", ctypes.c_uint64),
    )


def confine() -> None:
    """Restricts this process, which has one thread, to computing, allocating memory, and using open files.

    Raises: OSError if the kernel or its library offers no filter; this process must then end.
    """
    if (threads := len(os.listdir("/proc/self/task"))) > 1:
        raise OSError(errno.EBUSY, f"the process has {threads} threads; a filter restricts only the calling thread")
    library = ctypes.CDLL(LIBRARY)  # raises OSError if the library is missing
    for limit, most in ((resource.RLIMIT_NOFILE, _highest_descriptor() + 1), (resource.RLIMIT_NPROC, 0)):
        resource.setrlimit(limit, (most, most))
    with _filter(library) as rules:
        for name in ALLOWED:
            _allow(library, rules, name)
        for name, (argument, mask) in ZERO_ARGUMENTS.items():
            _allow(library, rules, name, Comparison(argument, MASKED_EQUAL, mask, 0))
        _checked(library.seccomp_load(rules), "the filter")  # sets no_new_privs too


def _highest_descriptor() -> int:
    return max(number for number in map(int, os.listdir("/proc/self/fd")) if _is_open(number))


def _is_open(descriptor: int) -> bool:
    """False for the descriptor with which the directory itself was read."""
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


@contextlib.contextmanager
def _filter(library: ctypes.CDLL) -> Iterator[ctypes.c_void_p]:
    library.seccomp_init.restype = ctypes.c_void_p
    rules = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(ERRNO | errno.EPERM)))
    if not rules:
        raise OSError(errno.ENOSYS, f"{LIBRARY} makes no filter")
    try:
        yield rules
    finally:
        library.seccomp_release(rules)


def _allow(library: ctypes.CDLL, rules: ctypes.c_void_p, name: str, *comparisons: Comparison) -> None:
    number = library.seccomp_syscall_resolve_name(name.encode())
    if number == UNKNOWN:
        raise OSError(errno.ENOSYS, f"{LIBRARY} does not know the system call {name}")
    array = (Comparison * len(comparisons))(*comparisons)
    added = library.seccomp_rule_add_array(rules, ctypes.c_uint32(ALLOW), number, len(comparisons), array)
    _checked(added, f"the rule for {name}")


def _checked(result: int, subject: str) -> None:
    """Raises: OSError for a negative result, which is minus an errno."""
    if result < 0:
        raise OSError(-result, f"{subject}: {os.strerror(-result)}")
