"""Locks in a process that forks: one that a child finds open, and one that fork waits for.

A process may fork while another of its threads holds a lock, to compile a kernel say. That thread
does not exist in the child, and nothing would ever open the lock there. The locks of this
package protect tables with entries that are put in whole, so the child may go on from them.

Two things cannot be left half done. One is LLVM's work. The other is an import of another package:
Python keeps its lock for the thread that is gone. So fork waits for what is done under `no_fork`,
as preparing a launch is, and under the locks of Numba's compiler and of LLVM
(:mod:`kerneldsl.lowering.numba_internals`).

Python keeps the lock of a module for the thread that imports it. In a forked child that thread is
gone, and a thread that imports the module waits permanently. Half-imported modules of this package
are imported again there. That does no harm: they only define things, and only other half-imported
modules have them. Python has no public way to do that; without its private names, nothing is done.
"""

from __future__ import annotations

import importlib
import logging  # noqa: F401
import os
import sys
import threading
import weakref
from collections.abc import Callable, Hashable
from typing import Any, Generic, Protocol, TypeVar

__all__ = ["ForkSafeLock", "OnceTable", "no_fork"]

#: Packages with modules that are imported within functions.
_OURS = frozenset({"kerneldsl", "kerneldsl_demo", "stdlib_kernels", "targets"})


def _forget_half_imported() -> None:
    """Let what threads of the parent were importing be imported again, in a forked child.

    Of a thread that was importing a module of kerneldsl that is all that it was importing.
    """
    locks: dict[str, Any] | None = getattr(_bootstrap(), "_module_locks", None)
    if not locks:
        return
    held: dict[str, int] = {}
    for name, reference in tuple(locks.items()):
        lock = reference()
        owner = getattr(lock, "owner", None)
        if isinstance(owner, int) and owner != threading.get_ident():
            held[name] = owner
    gone = {owner for name, owner in held.items() if name.partition(".")[0] in _OURS}
    for name, owner in held.items():
        if owner in gone:
            locks.pop(name, None)
            _forget(name)


def _bootstrap() -> Any:
    return getattr(importlib, "_bootstrap", None)


def _forget(name: str) -> None:
    module = sys.modules.get(name)
    spec = getattr(module, "__spec__", None)
    if module is None or not getattr(spec, "_initializing", False):
        return
    del sys.modules[name]
    package, _, last = name.rpartition(".")
    if getattr(sys.modules.get(package), last, None) is module:
        delattr(sys.modules[package], last)


class _Lock(Protocol):
    def acquire(self) -> object: ...
    def release(self) -> object: ...


_locks: weakref.WeakSet[ForkSafeLock] = weakref.WeakSet()


class ForkSafeLock:
    """A reentrant lock for ``with``, rebuilt in a forked child."""

    __slots__ = ("__weakref__", "_lock")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *exc: object) -> None:
        self._lock.release()

    def _open(self) -> None:
        self._lock = threading.RLock()


def _open_all() -> None:
    for lock in tuple(_locks):
        lock._open()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_open_all)
    os.register_at_fork(after_in_child=_forget_half_imported)


class _NoFork:
    """A ``with`` block during which no other thread forks; several threads may be in one.

    Fork waits until no other thread is in a block. Then it takes the locks of other libraries, too,
    the outer ones before the inner ones. So a block may take an outer or an inner one, and under an
    outer one an inner one, but not the other way round. A block must not wait
    for what the user's own code does, such as a kernel that runs.
    """

    def __init__(self) -> None:
        self._is_free = threading.Condition()
        #: Threads in a block, and in how many.
        self._inside: dict[int, int] = {}
        self._outer: tuple[_Lock, ...] = ()
        self._inner: tuple[_Lock, ...] = ()
        #: Locks that fork has acquired.
        self._taken: list[_Lock] = []

    def __enter__(self) -> None:
        me = threading.get_ident()
        with self._is_free:  # which a thread that forks holds until it has
            self._inside[me] = self._inside.get(me, 0) + 1

    def __exit__(self, *exc: object) -> None:
        me = threading.get_ident()
        with self._is_free:
            count = self._inside.pop(me) - 1
            if count:
                self._inside[me] = count
            else:
                self._is_free.notify_all()

    @property
    def is_held(self) -> bool:
        """Return whether a thread is in a block."""
        return bool(self._inside)

    def take_also(self, lock: _Lock, *, is_inner: bool = False) -> None:
        """Let fork wait for another library's lock, which must be reentrant."""
        with self._is_free:
            if is_inner:
                self._inner += (lock,)
            else:
                self._outer += (lock,)

    def _take(self) -> None:
        self._is_free.acquire()
        while self._inside.keys() - {threading.get_ident()}:
            self._is_free.wait()
        for lock in (*self._outer, *self._inner):
            lock.acquire()
            self._taken.append(lock)

    def _give(self) -> None:
        while self._taken:
            self._taken.pop().release()
        self._is_free.release()

    def _give_in_child(self) -> None:
        self._give()
        self._is_free = threading.Condition()  # without the threads that waited for it


#: The one of the process.
no_fork = _NoFork()

if hasattr(os, "register_at_fork"):
    # Registration is after the definitions: a process may fork while another thread enters a block.
    os.register_at_fork(
        before=no_fork._take,
        after_in_parent=no_fork._give,
        after_in_child=no_fork._give_in_child,
    )


Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class OnceTable(Generic[Key, Value]):
    """Makes each entry once, with a lock for each key, so that other keys do not wait.

    What fails is not remembered: the next thread tries again.
    """

    def __init__(self) -> None:
        self._values: dict[Key, Value] = {}
        self._locks: dict[Key, ForkSafeLock] = {}
        self._lock = ForkSafeLock()

    def get(self, key: Key) -> Value | None:
        """Return the entry, if it has been made."""
        return self._values.get(key)

    def get_or_make(self, key: Key, make: Callable[[], Value]) -> Value:
        """Return the entry, made by this thread or by the one that came first."""
        value = self._values.get(key)
        if value is not None:
            return value
        with self._lock:
            lock = self._locks.setdefault(key, ForkSafeLock())
        with lock:
            value = self._values.get(key)
            if value is None:
                value = self._values[key] = make()
        with self._lock:
            self._locks.pop(key, None)
        return value

    def values(self) -> tuple[Value, ...]:
        """Return every entry made so far."""
        return tuple(self._values.values())
