"""Kernels from text for tests of the uniformity analysis, and threads that hold it to its word.

A kernel has the parameters `x`, `y`, `q` and `n`: two arrays, one of two axes, and a number.
"""

from __future__ import annotations

import ast
import itertools
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from kerneldsl.analysis.inline import inline_block_functions
from kerneldsl.analysis.uniformity import UniformityResult, analyze_uniformity
from kerneldsl.frontend.normalize import make_unit
from kerneldsl.frontend.unit import FunctionUnit
from tests.support.python_kernels import simulate

__all__ = ["kernel_text", "load_kernels", "run_recorded"]

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
    unit = inline_block_functions(make_unit(load_kernels(text, folder)["kernel"]))
    result = analyze_uniformity(unit)
    if result.problems:
        return None
    claimed = {_place(node) for node in _claims(unit, result)}
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


def _claims(unit: FunctionUnit, result: UniformityResult) -> Iterator[ast.expr]:
    """Expressions that all threads are said to evaluate alike."""
    for statement in ast.walk(unit.tree):
        if isinstance(statement, ast.stmt) and result.is_uniform_place(statement):
            parts = [n for n in ast.iter_child_nodes(statement) if isinstance(n, ast.expr)]
            if isinstance(statement, ast.For):
                parts = [statement.iter]  # its target belongs to the loop's iterations
            for part in parts:
                for node in ast.walk(part):
                    if isinstance(node, ast.expr) and result.is_uniform(node):
                        yield node


def _plain(value: Any) -> Any:
    """What is compared of a value: of an array its shape, for it is called uniform as a place."""
    if isinstance(value, np.ndarray):
        return value.shape, value.strides
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return value if isinstance(value, int | float | complex | np.generic) else None
