"""A process that pretends to be on Windows or macOS, as far as kerneldsl can see.

Run as ``python -m tests.support.other_system win32``: imports every module of the packages
without what that system lacks, runs the command line and a kernel, and prints a report as JSON.

Other people's packages are imported before the pretence begins, because they look at the system
when they are imported; so every module of ours is imported twice.
"""

from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import importlib
import io
import json
import os
import pkgutil
import shutil
import signal
import sys
from types import ModuleType
from typing import Any

__all__ = ["MISSING_MODULES", "MISSING_OS", "MISSING_SIGNALS", "main"]

_PACKAGES = ("kerneldsl", "targets", "stdlib_kernels", "kerneldsl_demo")
#: Of what Windows lacks: what psutil and shutil, as imported here, use in place of its own calls.
_BORROWED = frozenset({"statvfs", "sysconf"})
_COMMANDS = ("backends", "devices", "default", "status", "summary", "doctor")


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


#: Functions of ``os`` that each system lacks, of those that a program may want.
MISSING_OS: dict[str, tuple[str, ...]] = {
    "win32": _words(
        "chown fork forkpty fchmod fchown getegid geteuid getgid getgroups getloadavg getpgid "
        "getpriority getresuid getsid getuid killpg lchown mkfifo nice pipe2 posix_fadvise "
        "posix_fallocate posix_spawn pread pwrite register_at_fork sched_get_priority_max "
        "sched_getaffinity sched_setaffinity sched_yield setgid setpgid setpriority setsid setuid "
        "statvfs sync sysconf uname wait wait3 wait4 waitid WNOHANG"
    ),
    "darwin": _words(
        "getresuid memfd_create pipe2 posix_fadvise posix_fallocate sched_getaffinity "
        "sched_setaffinity"
    ),
}
#: Modules of the standard library that each system lacks.
MISSING_MODULES: dict[str, tuple[str, ...]] = {
    "win32": _words("fcntl grp posix pty pwd resource syslog termios tty"),
    "darwin": (),
}
#: Signals that each system lacks.
MISSING_SIGNALS: dict[str, tuple[str, ...]] = {
    "win32": _words("SIGALRM SIGCHLD SIGHUP SIGKILL SIGQUIT SIGSTOP SIGTSTP SIGUSR1"),
    "darwin": (),
}


def _import_everything() -> list[str]:
    names = []
    for package in _PACKAGES:
        folder = importlib.import_module(package)
        for found in pkgutil.walk_packages(folder.__path__, f"{package}."):
            if not found.name.endswith("__main__"):
                importlib.import_module(found.name)
                names.append(found.name)
    return names


def _command(name: str) -> tuple[int, str, str]:
    """Run a command and return its status, output and error output."""
    run = importlib.import_module("kerneldsl.tools.cli.app").run
    out, errors = io.StringIO(), io.StringIO()
    status = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        try:
            run([name, "--json"])
        except SystemExit as end:
            status = int(end.code or 0)
    return status, out.getvalue(), errors.getvalue()


def _forget_ours() -> None:
    for name in list(sys.modules):
        if name.partition(".")[0] in _PACKAGES:
            del sys.modules[name]


def _pretend(system: str) -> None:
    """Take away what the system lacks; nothing loads a driver's library from here on."""
    sys.platform = system
    for name in MISSING_OS[system]:
        if hasattr(os, name) and name not in _BORROWED:
            delattr(os, name)
    for name in MISSING_MODULES[system]:
        sys.modules[name] = None  # type: ignore[assignment]
    for name in MISSING_SIGNALS[system]:
        if hasattr(signal, name):
            delattr(signal, name)
    ctypes.util.find_library = lambda name: None
    # Under another name of the system these two reach for modules that are not there.
    shutil.which = lambda *args, **options: None  # type: ignore[assignment]
    sys.modules["cuda.bindings.driver"] = _NoDriver("cuda.bindings.driver")
    # What only that system has answers that it knows nothing, in its own way.
    if system == "win32":
        sys.modules["winreg"] = _EmptyRegistry("winreg")
    else:
        ctypes.CDLL = _SystemLibrary  # type: ignore[misc, assignment]


class _EmptyRegistry(ModuleType):
    """``winreg`` without a key."""

    HKEY_LOCAL_MACHINE = 0

    @staticmethod
    def OpenKey(root: int, where: str) -> None:
        raise FileNotFoundError(f"no key {where}")


class _SystemLibrary:
    """The system's own library on macOS, whose ``sysctl`` knows no name."""

    def __init__(self, path: str | None, *args: Any, **options: Any) -> None:
        if path is not None:
            raise OSError(f"dlopen({path}): no such file")

    def sysctlbyname(self, *args: Any) -> int:
        return -1


class _NoDriver(ModuleType):
    """``cuda.bindings.driver`` where the driver's library cannot be found."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("cu"):
            raise RuntimeError("Failed to find the CUDA driver's library")
        raise AttributeError(name)


def _run_kernel() -> list[int]:
    import numpy as np

    import kerneldsl as kd
    from tests.support.source import exec_source

    text = (
        "import kerneldsl as kd\n"
        "@kd.kernel\n"
        "def double(x, out):\n"
        "    i = kd.grid(1)\n"
        "    if i < out.size:\n"
        "        out[i] = x[i] * 2\n"
    )
    double = exec_source(text, "other_system")["double"]
    x, out = np.arange(5), np.zeros(5, np.int64)
    with kd.use("cpu"), kd.Stream() as stream:
        double.forall(5)(kd.to_device(x), kd.to_device(out))
        stream.synchronize()
        double.forall(5)(x, out)
    return out.tolist()


def main(system: str) -> None:
    """Print what was imported and what the commands said."""
    os.environ["KERNELDSL_FALLBACK"] = "never"
    _import_everything()
    for command in _COMMANDS:
        _command(command)
    _run_kernel()
    _forget_ours()
    _pretend(system)
    report = {
        "modules": _import_everything(),
        "commands": {command: _command(command) for command in _COMMANDS},
        "result": _run_kernel(),
    }
    json.dump(report, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
