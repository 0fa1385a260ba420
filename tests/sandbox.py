"""
A program under the restrictions of a unit that need no running systemd to be enforced.

    python tests/sandbox.py UNIT PROGRAM [ARGUMENT ...]

No new privileges, no capabilities, no memory that can be written and executed, the unit's own
system calls and kinds of sockets, and nothing else. libseccomp comes with systemd, and
systemd-analyze knows its groups of calls.
"""

from __future__ import annotations

import ctypes
import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

_PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_SET_MDWE = 24, 38, 65
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
_EQUAL = 4
_FAMILIES = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10, "AF_NETLINK": 16}

Unit = list[tuple[str, str]]


class Comparison(ctypes.Structure):
    """`struct scmp_arg_cmp` of libseccomp."""

    _fields_ = (
        ("argument", ctypes.c_uint),
        ("operator", ctypes.c_int),
        ("first", ctypes.c_uint64),
        ("second", ctypes.c_uint64),
    )


def read(path: Path) -> Unit:
    """Its settings in order; what a later line says counts more."""
    lines = [
        line.partition("=")
        for line in path.read_text().splitlines()
        if "=" in line and line[0] != "#"
    ]
    return [(key, value) for key, _, value in lines]


def last(unit: Unit, key: str) -> str:
    """What the unit says in the end."""
    return dict(unit)[key]


def groups() -> dict[str, list[str]]:
    """The groups of system calls that systemd knows, each with its members."""
    listed = subprocess.run(
        ["systemd-analyze", "syscall-filter"],  # noqa: S607 - where it is depends on the distribution
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found: dict[str, list[str]] = {}
    for line in listed.splitlines():
        name = line.strip()
        if line.startswith("@"):
            members = found[name] = []
        elif name and not name.startswith("#") and found:
            members.append(name)
    return found


def calls(names: str, known: dict[str, list[str]]) -> Iterator[str]:
    """The calls behind names of calls and groups."""
    for name in names.split():
        if name.startswith("@"):
            yield from calls(" ".join(known[name]), known)
        else:
            yield name


def allowed(unit: Unit) -> set[str]:
    """What SystemCallFilter= leaves, line after line."""
    known, left = groups(), set[str]()
    for key, value in unit:
        if key == "SystemCallFilter" and value.startswith("~"):
            left -= set(calls(value[1:], known))
        elif key == "SystemCallFilter":
            left |= set(calls(value, known))
    return left


def families(unit: Unit) -> set[str]:
    """The kinds of sockets that may be made."""
    return {
        name for key, value in unit if key == "RestrictAddressFamilies" for name in value.split()
    }


def must(result: int, what: str) -> None:
    """Nothing may be half restricted: the test would prove nothing."""
    if result != 0:
        sys.exit(f"{what} is refused by this kernel ({result}, {os.strerror(ctypes.get_errno())})")


def restrict(unit: Unit) -> None:
    """This process, and whatever it becomes."""
    libc = ctypes.CDLL(None, use_errno=True)
    if last(unit, "CapabilityBoundingSet") == "":
        highest = int(Path("/proc/sys/kernel/cap_last_cap").read_text())
        for capability in range(highest + 1 if os.geteuid() == 0 else 0):
            must(libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0), "PR_CAPBSET_DROP")
    if last(unit, "NoNewPrivileges") == "yes":
        must(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "PR_SET_NO_NEW_PRIVS")
    filter_calls(allowed(unit), families(unit))
    if last(unit, "MemoryDenyWriteExecute") == "yes":
        must(libc.prctl(_PR_SET_MDWE, 1, 0, 0, 0), "PR_SET_MDWE (Linux 6.3)")


def filter_calls(names: set[str], families: set[str]) -> None:
    """Only these, and sockets of these kinds only. Whatever else is asked for fails with EPERM."""
    seccomp = ctypes.CDLL("libseccomp.so.2", use_errno=True)
    seccomp.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(seccomp.seccomp_init(ctypes.c_uint32(_REFUSE)))
    for name in sorted(names - {"socket"}):
        number = seccomp.seccomp_syscall_resolve_name(name.encode())
        if number >= 0:  # others are of other machines
            must(seccomp.seccomp_rule_add(context, ctypes.c_uint32(_ALLOW), number, 0), name)
    for family in sorted(families):
        only = Comparison(argument=0, operator=_EQUAL, first=_FAMILIES[family])
        number = seccomp.seccomp_syscall_resolve_name(b"socket")
        adding = seccomp.seccomp_rule_add_array(
            context, ctypes.c_uint32(_ALLOW), number, 1, ctypes.byref(only)
        )
        must(adding, family)
    must(seccomp.seccomp_load(context), "seccomp")


if __name__ == "__main__":
    restrict(read(Path(sys.argv[1])))
    os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606 - that is what this is for
