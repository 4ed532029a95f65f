"""Runs a kernel's own Python function for each thread of a launch (:mod:`.simt`).

Where a kernel names nothing that it waits at, its threads are calls, one after the other; else each
has a Python thread of its own. Arithmetic is NumPy's: a kernel that is to be compared bit for bit
says its types (``np.float32(2)``), as NumPy and Numba promote Python numbers differently.
"""

from __future__ import annotations

import ast
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.frontend.normalize import make_unit
from kerneldsl.frontend.unit import FunctionUnit, IntrinsicUse
from kerneldsl.language.element_types import DTYPE_NAMES
from kerneldsl.language.intrinsics.intrinsic import Intrinsic
from kerneldsl.language.intrinsics.table import INTRINSICS
from kerneldsl.language.intrinsics.tiles import TILE_ATTRIBUTES, TILE_METHODS
from kerneldsl.language.packed_numbers import PACKED_NUMBERS
from tests.support.groups import GROUPS
from tests.support.scalars import SCALARS
from tests.support.simt import GRID_BARRIER, STOPS, Launch, Stop, Thread
from tests.support.turns import taken_lock
from tests.support.vectors import VECTORS

__all__ = [
    "Language",
    "PausingThread",
    "python_function",
    "simulate",
    "simulate_forall",
    "simulate_launch",
    "unit_of",
    "uses_of",
]


def python_function(decorated: Any) -> Callable[..., Any]:
    """Return the Python function behind a kernel or device function."""
    return decorated.__wrapped__  # type: ignore[no-any-return]


def unit_of(kernel: Any) -> FunctionUnit:
    """Return the normal form of a kernel with its compile-time parameters, or of a function."""
    constants = getattr(kernel, "_constant_values", None)
    return make_unit(getattr(kernel, "__wrapped__", kernel), constants=constants)


def uses_of(unit: FunctionUnit) -> Iterator[IntrinsicUse]:
    """Yield the operations of a kernel and of what it calls, methods of tiles too."""
    yield from unit.all_uses()
    rows = {**TILE_METHODS, **TILE_ATTRIBUTES}
    for each in unit.reachable() if unit.uses_tiles() else ():
        for node in ast.walk(each.tree):
            if isinstance(node, ast.Attribute) and node.attr in rows:
                yield IntrinsicUse(rows[node.attr], {})


#: Names of kd that mean the same outside of a kernel.
_SAME_OUTSIDE = {*DTYPE_NAMES, *PACKED_NUMBERS, "random"}


class Language:
    """Stands in for the ``kd`` of a kernel: that of the thread whose turn it is."""

    def __init__(self) -> None:
        self.turn: _Call | PausingThread
        self.can_wait = False
        self.shared = types.SimpleNamespace(array=self._shared_array)
        self.const = types.SimpleNamespace(array_like=lambda array: array)
        self.local = types.SimpleNamespace(array=lambda *args: self.turn.thread.local_array(*args))

        for group in (*GROUPS, "chain"):
            setattr(self, group, _Group(self, group))

    def _shared_array(self, shape: Any, dtype: Any) -> Any:
        frame = sys._getframe(1)
        return self.turn.thread.shared_array((frame.f_code, frame.f_lineno), shape, dtype)

    def grid_group(self) -> Any:
        return types.SimpleNamespace(sync=lambda: self._wait(GRID_BARRIER, ()))

    def syncwarp(self, mask: int = 0xFFFFFFFF) -> None:
        self._wait("syncwarp", (mask,))

    def _wait(self, name: str, args: tuple[Any, ...]) -> Any:
        assert isinstance(self.turn, PausingThread), f"no code of the kernel has the name {name}"
        frame = sys._getframe(2)
        return self.turn.wait(((name, frame.f_code, frame.f_lineno, _lines_to(frame)), args))

    def __getattr__(self, name: str) -> Any:
        if name in STOPS:
            return lambda *args: self._wait(name, args)
        if name in _SAME_OUTSIDE:
            return getattr(kd, name)
        return getattr(self.turn.thread, name)


class _Group:
    """Stands in for ``kd.warp``, ``kd.block`` or ``kd.chain``."""

    def __init__(self, language: Language, group: str) -> None:
        self._language = language
        self._group = group

    def __getattr__(self, word: str) -> Any:
        name = f"{self._group}.{word}"
        row = INTRINSICS[name]

        def call(*args: Any, **named: Any) -> Any:
            given = {**row.defaults, **dict(zip(row.parameters, args, strict=False)), **named}
            return self._language._wait(name, tuple(given[each] for each in row.parameters))

        return call


def _lines_to(frame: types.FrameType | None) -> tuple[int, ...]:
    """Lines of the calls that lead to a frame, from the kernel's own on."""
    lines: list[int] = []
    while frame is not None and frame.f_code.co_filename != __file__:
        lines.insert(0, frame.f_lineno)
        frame = frame.f_back
    return tuple(lines)


class _Call:
    """A thread that waits for no other."""

    def __init__(self, thread: Thread, language: Language, body: Callable[[], Any]) -> None:
        self.thread = thread
        self._language = language
        self._body = body

    def send(self, answer: Any, /) -> Stop:
        self._language.turn = self
        self._body()
        raise StopIteration


class PausingThread:
    """A thread that a Python thread of its own runs, which waits for its turn."""

    def __init__(self, thread: Thread, language: Language, body: Callable[[], Any]) -> None:
        self.thread = thread
        self._language = language
        self._turn, self._pause = taken_lock(), taken_lock()
        self._stop: Stop | None = None
        self._answer: Any = None
        self._error: BaseException | None = None

        def work() -> None:
            self._turn.acquire()
            try:
                with np.errstate(all="ignore"):  # what the launching thread ignores is its own
                    body()
            except BaseException as error:  # noqa: BLE001 - handed to the launching thread
                self._error = error
            self._stop = None
            self._pause.release()

        threading.Thread(target=work, daemon=True).start()

    def send(self, answer: Any, /) -> Stop:
        self._language.turn = self
        self._answer = answer
        self._turn.release()
        self._pause.acquire()
        if self._error is not None:
            raise self._error
        if self._stop is None:
            raise StopIteration
        return self._stop

    def wait(self, stop: Stop) -> Any:
        self._stop = stop
        self._pause.release()
        self._turn.acquire()
        return self._answer


def _rebind(function: Callable[..., Any], language: Language, done: dict[int, Any]) -> Any:
    """Return the function with our `language` for its ``kd``, its device functions likewise."""

    def replace(value: Any) -> Any:
        if value is kd:
            return language
        if isinstance(value, Intrinsic):  # a dtype of vectors, or a function of numbers
            return {**VECTORS, **SCALARS}[value.name]
        inner = python_function(value) if isinstance(value, type(_device_function)) else value
        if isinstance(inner, types.FunctionType) and inner is not function:
            if (inner.__module__ or "").partition(".")[0] in ("numpy", "math"):
                return inner
            if id(inner) not in done:
                done[id(inner)] = _rebind(inner, language, done)
            return done[id(inner)]
        return value

    code = function.__code__
    names = _names_in(code)
    language.can_wait |= not names.isdisjoint({*STOPS, *GROUPS, "chain", "grid_group"})
    scope = {k: replace(v) if k in names else v for k, v in function.__globals__.items()}
    cells = tuple(types.CellType(replace(c.cell_contents)) for c in function.__closure__ or ())
    made = types.FunctionType(code, scope, function.__name__, function.__defaults__, cells)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def _names_in(code: types.CodeType) -> set[str]:
    """Names that code, and the functions in it, looks up."""
    inner = (each for each in code.co_consts if isinstance(each, types.CodeType))
    return set(code.co_names).union(*map(_names_in, inner))


@kd.func
def _device_function(x):  # type: ignore[no-untyped-def]
    return x


def simulate_launch(kernel: Any, launch: Launch, args: tuple[Any, ...]) -> None:
    """Run a kernel on NumPy arrays, in place, in the order of a launch."""
    language = Language()
    body = _rebind(python_function(kernel), language, {})
    kind = PausingThread if language.can_wait else _Call
    constants = getattr(kernel, "_constant_values", None) or {}
    launch.run(lambda thread: kind(thread, language, lambda: body(*args, **constants)))


def simulate(
    kernel: Any,
    grid: int | tuple[int, ...],
    block: int | tuple[int, ...],
    args: tuple[Any, ...],
    shared_bytes: int = 0,
) -> None:
    """Run ``kernel[grid, block](*args)`` on NumPy arrays, in place."""
    simulate_launch(kernel, Launch(grid, block, shared_bytes), args)


def simulate_forall(kernel: Any, extent: tuple[int, ...], args: tuple[Any, ...]) -> None:
    """Run ``kernel.forall(*extent)(*args)`` of an element kernel on NumPy arrays, in place."""
    simulate_launch(kernel, Launch(extent), args)
