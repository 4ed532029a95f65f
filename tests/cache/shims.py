"""An ``os`` that fails, in the place of the one that the cache uses."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from kerneldsl.cache import directory, room, store

__all__ = ["STEPS", "FaultyOs", "faulty", "steps_of"]

#: The calls of a write, each of which may fail or be the last thing that a process does.
STEPS = ("open", "write", "fsync", "close", "replace")


class FaultyOs:
    """Passes everything on to ``os``, and interferes with one call of some functions.

    Parameters
    ----------
    at : int
        Number of the call that is interfered with, counted over all of `names`, from 0.
    act : callable
        Takes the function and its arguments in the place of that call.
    names : tuple of str
        Which functions count.
    """

    def __init__(self, at: int, act: Callable[..., Any], names: tuple[str, ...] = STEPS) -> None:
        self._at = at
        self._act = act
        self._names = names
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(os, name)
        if name not in self._names:
            return found

        def call(*args: Any, **options: Any) -> Any:
            number = self.calls
            self.calls += 1
            if number == self._at:
                return self._act(found, *args, **options)
            return found(*args, **options)

        return call


@contextmanager
def faulty(at: int, act: Callable[..., Any], names: tuple[str, ...] = STEPS) -> Iterator[FaultyOs]:
    """Let the cache use a faulty ``os``."""
    shim = FaultyOs(at, act, names)
    with ExitStack() as patched:
        for module in (directory, room, store):
            patched.enter_context(mock.patch.object(module, "os", shim))
        yield shim


def steps_of(work: Callable[[], object], names: tuple[str, ...] = STEPS) -> int:
    """How many calls some work makes when nothing fails."""
    with faulty(-1, lambda: None, names) as shim:
        work()
    return shim.calls


def fail_with(number: int) -> Callable[..., Any]:
    """Raise an error of the system instead of the call."""

    def act(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        if function is os.close:
            os.close(*args)  # an error of close leaves the descriptor closed (close(2))
        raise OSError(number, os.strerror(number))

    return act


def die_before(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def die_after(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    try:
        function(*args, **options)
    finally:  # it may be refused, and rightly so
        os.kill(os.getpid(), signal.SIGKILL)


def die_halfway(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Write half of what was to be written, and die."""
    if function is os.write:
        os.write(args[0], args[1][: len(args[1]) // 2])
    os.kill(os.getpid(), signal.SIGKILL)


def take_little(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """A write that takes less than it is given."""
    if function is os.write:
        return os.write(args[0], args[1][:1])
    return function(*args, **options)
