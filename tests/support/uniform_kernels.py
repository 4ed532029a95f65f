"""Kernels from text for tests of the uniformity analysis, and threads that hold it to its word.

A kernel has the parameters `x`, `y`, `q` and `n`: two arrays, one of two axes, and a number.
"""

from __future__ import annotations

import ast
import itertools
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from numba import errors, types

from kerneldsl.contract import Promises, Specialization
from kerneldsl.ir.accesses import Accesses
from kerneldsl.ir.barriers import analyze_barriers
from kerneldsl.ir.divergence import Level, join, level_of
from kerneldsl.ir.frontend.reader import Reader
from kerneldsl.ir.intervals import Intervals
from kerneldsl.ir.operations import Function, Region, Value
from kerneldsl.ir.uniformity import Uniformity
from kerneldsl.language.intrinsics.intrinsic import Scope
from tests.support.python_kernels import simulate
from tests.support.read_kernels import read_kernel_for

__all__ = ["SIGNATURE", "kernel_text", "load_kernels", "run_recorded"]

#: Of the parameters of a kernel.
SIGNATURE = "int64[::1], int64[::1], int64[:, ::1], int64"

_BLOCK = 6
_HEADER = """
import math

import numpy as np
from numba import njit

import kerneldsl as kd

TABLE = np.arange(8)
TABLE.flags.writeable = False
PAIR = (2, 5)


@kd.func
def extent(a):
    return a.size


@kd.func
def element(a, i):
    return a[i]


@kd.func
def own_index(a):
    return kd.threadIdx.x + a


@kd.func
def early(i):
    if i > 2:
        return 1
    return 0


@kd.func
def from_loop(i, n):
    for k in range(n):
        if k >= i:
            return 7
    return 7


@kd.func
def changes_argument(i):
    i = i * 0 + kd.threadIdx.x
    return i


@kd.func
def view_of(a, i):
    return a[i:]


@kd.func
def own_total(i):
    mine = kd.local.array(2, np.int64)
    mine[0] = i
    return mine[0]


@kd.func
def put(a, i, value):
    a[i] = value


@kd.func
def put_and_get(a, value):
    a[0] = value
    return a[0]


@njit
def plain_total(a):
    total = 0
    for v in a:
        total += v
    return total


@njit
def plain_sum_of(i, j):
    return i + j

"""
_numbers = itertools.count()


def kernel_text(body: str, parameters: tuple[str, ...] = ("x", "y", "q", "n")) -> str:
    """Source of a kernel in which `t` is ``kd.threadIdx.x``, and of what it may call."""
    head = f"def kernel({', '.join(parameters)}):\n    t = kd.threadIdx.x\n"
    return _HEADER + head + textwrap.indent(textwrap.dedent(body), "    ")


def load_kernels(text: str, folder: Path) -> dict[str, Any]:
    """Run source from a file of its own, where the front end finds it."""
    path = folder / f"kernels_{next(_numbers)}.py"
    path.write_text(text)
    namespace: dict[str, Any] = {"__name__": path.stem}
    exec(compile(text, str(path), "exec"), namespace)
    return namespace


def run_recorded(text: str, folder: Path) -> int | None:
    """Run a kernel on simulated threads, and compare what the analysis calls uniform.

    Returns
    -------
    int or None
        How many values of the first thread were compared with the other threads'; ``None`` where
        the analysis refuses a barrier, on which the threads might wait for ever.
    """
    nodes: list[_Read] = []
    with recording_nodes(nodes):
        try:
            function, spec = read_kernel_for(load_kernels(text, folder)["kernel"], SIGNATURE)
        except errors.NumbaError:
            return None
    if analyze_barriers(function, spec).problems:
        return None
    claimed = _claims(function, spec, nodes)
    seen: dict[int, list[Any]] = {}

    def record(thread: int, place: Any, value: Any) -> Any:
        seen.setdefault(thread, []).append((place, _plain(value)))
        return value

    tree = ast.parse(text.replace("@njit", "@(lambda function: function)"))
    kernel = tree.body[-1]
    assert isinstance(kernel, ast.FunctionDef)
    kernel.body = [_Recorder(claimed).visit(statement) for statement in kernel.body]
    namespace: dict[str, Any] = {"_record": record}
    exec(compile(ast.fix_missing_locations(tree), "<recorded>", "exec"), namespace)
    x = np.arange(8, dtype=np.int64)
    arguments = (x, np.zeros(8, np.int64), np.arange(64, dtype=np.int64).reshape(8, 8), 3)
    simulate(SimpleNamespace(__wrapped__=namespace["kernel"]), 1, _BLOCK, arguments)
    sequences = sorted(seen.values(), key=len)
    for number, event in enumerate(sequences[-1] if sequences else ()):
        for other in sequences:  # a thread that has left the kernel has told less
            if len(other) > number and other[number] != event:
                raise AssertionError(f"{other[number]} and {event} in:\n{text}")
    return len(sequences[-1]) if sequences else 0


class _Recorder(ast.NodeTransformer):
    """Lets a kernel tell the values of the expressions at the claimed places."""

    def __init__(self, claimed: set[tuple[int, ...]]) -> None:
        self.claimed = claimed

    def visit(self, node: ast.AST) -> Any:
        is_chain = isinstance(node, ast.Compare) and len(node.ops) > 1
        if not (isinstance(node, ast.BoolOp | ast.IfExp) or is_chain):
            self.generic_visit(node)  # else some threads only evaluate what stands within
        is_read = isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
        is_slice = isinstance(node, ast.Slice) or _holds_slice(node)
        if not isinstance(node, ast.expr) or not is_read or is_slice:
            return node
        if _place(node) not in self.claimed:
            return node
        thread = ast.parse("kd.threadIdx.x", mode="eval").body
        parts = [thread, ast.Constant(_place(node)), node]
        told = ast.Call(ast.Name("_record", ast.Load()), parts, [])
        return ast.copy_location(told, node)


def _holds_slice(node: ast.AST) -> bool:
    return isinstance(node, ast.Tuple) and any(isinstance(e, ast.Slice) for e in node.elts)


def _place(node: ast.AST) -> tuple[int, ...]:
    fields = ("lineno", "col_offset", "end_lineno", "end_col_offset")
    return tuple(getattr(node, field, -1) for field in fields)


class _Read(NamedTuple):
    """An expression of the kernel, what it was read as, and where."""

    node: ast.expr
    value: Any
    region: Region


@contextmanager
def recording_nodes(nodes: list[_Read]) -> Iterator[None]:
    """Note the expressions of a kernel while it is read."""
    read = Reader._value

    def noting(reader: Reader, node: ast.expr, *otherwise: Any) -> Any:
        found = read(reader, node, *otherwise)
        if reader.depth == 0:
            nodes.append(_Read(node, found, reader.region))
        return found

    with mock.patch.object(Reader, "_value", noting):
        yield


class _Places(Uniformity):
    """The analysis of a kernel, with the regions that all threads of a block run."""

    def __init__(self, function: Function, spec: Specialization) -> None:
        self.divergent: set[Region] = set()
        accesses = Accesses(function, spec.kinds, Promises(is_disjoint=True))
        super().__init__(
            function, accesses, {Scope.BLOCK: Intervals(function, accesses, Scope.BLOCK)}
        )

    def _region(self, region: Region) -> None:
        super()._region(region)
        if level_of(self._now(), Scope.BLOCK) is not Level.UNIFORM:
            self.divergent.add(region)


def _claims(function: Function, spec: Specialization, nodes: list[_Read]) -> set[tuple[int, ...]]:
    """Return the places of expressions that all threads are said to evaluate alike."""
    found = _Places(function, spec)
    regions = {function.body, *(each for op in function.body.walk() for each in op.regions)}
    claimed: set[tuple[int, ...]] = set()
    refuted: set[tuple[int, ...]] = set()
    for node, value, region in nodes:
        if region not in regions:
            continue  # a loop that was read again
        is_uniform = region not in found.divergent and _is_uniform(found, value)
        (claimed if is_uniform else refuted).add(_place(node))
    return claimed - refuted


def _is_uniform(found: Uniformity, value: Any) -> bool:
    if isinstance(value, tuple):
        return all(_is_uniform(found, each) for each in value)
    if not isinstance(value, Value):
        return False
    # An array is compared by its shape.
    is_array = isinstance(value.type, types.Array)
    fact = found.extent(value) if is_array else join(found.fact(value), found.extent(value))
    return level_of(fact, Scope.BLOCK) is Level.UNIFORM


def _plain(value: Any) -> Any:
    """What is compared of a value: of an array its shape, for it is called uniform as a place."""
    if isinstance(value, np.ndarray):
        return value.shape, value.strides
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return value if isinstance(value, int | float | complex | np.generic) else None
