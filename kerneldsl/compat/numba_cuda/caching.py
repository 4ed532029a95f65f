"""``cache=True``: compiled code beside the source, where Numba has it.

The files are Numba's: an index, and one with the code of each specialization. A file has the entry
of kerneldsl's own cache, which checks it as it checks its own. Numba's files are unpickled, so that
a folder that others can write is not used.

As under numba.cuda, the code keeps the values of globals that it was first compiled with, also in
later processes. It is compiled again if the source changes, and after ``recompile()``. It keeps the
globals that the file of the kernel assigns. Of names that the file imports each process has its own
values.
"""

from __future__ import annotations

import ast
import linecache
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kerneldsl.cache.disk import disk_cache
from kerneldsl.cache.folders import is_foreign, is_open_to_others
from kerneldsl.cache.key import Key
from kerneldsl.compat.numba_cuda.typing import argument_types
from kerneldsl.frontend.fingerprint import describe_constant
from kerneldsl.language.kinds import Kind
from kerneldsl.lowering.numba_internals.vocabulary import CacheFiles, CacheImpl

__all__ = ["FilesBeside"]


class _Place(CacheImpl):  # type: ignore[misc]
    """Finds the folder and the names of the files."""

    def reduce(self, data: Any) -> Any:
        return data

    def rebuild(self, target_context: Any, reduced_data: Any) -> Any:
        return reduced_data

    def check_cachable(self, data: Any) -> bool:
        return True


class FilesBeside:
    """The files of one function.

    Parameters
    ----------
    function : function
        The Python function.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._locator = (place := _Place(function)).locator
        self.path: str = self._locator.get_cache_path()
        stamp = self._locator.get_source_stamp()
        self._files = CacheFiles(self.path, place.filename_base, stamp)
        self._filename = function.__code__.co_filename
        #: Functions of a factory have the same files, and different variables around them.
        self._around = tuple(_values_around(function))
        #: Numbers of cache hits and misses, by the types of the parameters.
        self.hits: Counter[Any] = Counter()
        self.misses: Counter[Any] = Counter()

    def bring(self, key: Key, kinds: tuple[Kind, ...]) -> bool:
        """Put the code of a key into the cache, if it is here; return whether it is."""
        found = self._files.load((self._around, key.digest)) if self._is_own() else None
        if found is None:
            self.misses[argument_types(kinds)] += 1
            return False
        self.hits[argument_types(kinds)] += 1
        if disk_cache().look_up(key) is None:
            disk_cache().keep(key, found[0])
        return True

    def keep(self, key: Key, reads: Mapping[Any, Mapping[str, Any]]) -> None:
        """Write the code of a key, which has just been put into the cache, and what it read."""
        found = disk_cache().look_up(key)
        if found is not None:
            self._locator.ensure_cache_path()
            if self._is_own():
                values = {_name_of(each): self._kept(each, known) for each, known in reads.items()}
                self._files.save((self._around, key.digest), (dict(found.entry.sections), values))

    def values_of(self, function: Callable[..., Any]) -> Mapping[str, Any] | None:
        """Return the globals of a function that the code was compiled with."""
        return self._values().get(_name_of(function))

    def forget(self) -> None:
        """Have the code compiled again, with the globals of that time."""
        if self._is_own():
            self._files.forget(self._is_of_function)

    def _values(self) -> Mapping[Any, Mapping[str, Any]]:
        # All entries of a function have the same values.
        key = (
            next(filter(self._is_of_function, self._files.keys()), None) if self._is_own() else None
        )
        found = None if key is None else self._files.load(key)
        return {} if found is None else found[1]

    def _is_of_function(self, key: Any) -> bool:
        return bool(key[0] == self._around)

    def _kept(self, function: Any, reads: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values that code keeps: constants that the file of the kernel assigns."""
        if function.__code__.co_filename != self._filename:
            return {}
        assigned = _assigned_in(self._filename)
        return {name: each for name, each in reads.items() if name in assigned and _is_kept(each)}

    def _is_own(self) -> bool:
        """Return whether the folder is there, and this user alone can write to it."""
        folder = Path(self.path)
        if not folder.is_dir():
            return False
        status = folder.stat()
        return not is_foreign(status, is_site=False) and not is_open_to_others(status)


def _name_of(function: Any) -> tuple[str, int]:
    return function.__qualname__, function.__code__.co_firstlineno


def _is_kept(value: Any) -> bool:
    if type(value) is tuple:
        return all(map(_is_kept, value))
    plain = (bool, int, float, complex, str, bytes, np.ndarray)
    return type(value) in plain or isinstance(value, np.generic)


def _values_around(function: Any) -> Iterator[str]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            value = cell.cell_contents
        except ValueError:  # it is assigned later
            continue
        if _is_kept(value):
            yield f"{name} = {describe_constant(value)}"


def _assigned_in(filename: str) -> frozenset[str]:
    """Return the names that a file assigns outside of functions and classes."""
    found, pending = set[str](), [*ast.parse("".join(linecache.getlines(filename))).body]
    while pending:
        match pending.pop():
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                continue
            case ast.Name(name, ast.Store()):
                found.add(name)
            case node:
                pending += ast.iter_child_nodes(node)  # type: ignore[arg-type]
    return frozenset(found)
