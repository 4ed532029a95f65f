"""A slow run of a generated program: threads are Python generators, a barrier is a ``yield``.

The program's text is parsed again and rewritten so that every operation asks :mod:`.typing` for
its result; nothing of kerneldsl takes part.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

import numpy as np

from tests.fuzz import typing
from tests.support.arrays import poisoned

__all__ = ["run"]

_BINARY = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
}
_COMPARE = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}
_BARRIERS = ("syncthreads", "syncthreads_count", "syncthreads_and", "syncthreads_or")


class _Index(NamedTuple):
    x: Any
    y: Any


class _Thread:
    """What a thread knows of its place, and the arrays it can declare."""

    def __init__(
        self, thread_idx: tuple[int, int], block_idx: int, block_dim: tuple[int, int], shared: Any
    ) -> None:
        self.threadIdx = _Index(*map(np.int64, thread_idx))
        self.blockIdx = _Index(np.int64(block_idx), np.int64(0))
        self.blockDim = _Index(*map(np.int64, block_dim))
        self._shared = shared

    def shared(self, site: int, shape: int, dtype: str) -> np.ndarray:
        if site not in self._shared:
            self._shared[site] = poisoned(shape, dtype)
        return self._shared[site]  # type: ignore[no-any-return]

    @staticmethod
    def local(site: int, shape: int, dtype: str) -> np.ndarray:
        return poisoned(shape, dtype)


def _atomic(name: str, array: np.ndarray, index: Any, value: Any) -> None:
    operations: dict[str, Callable[[Any, Any], Any]] = {
        "add": np.add,
        "sub": np.subtract,
        "max": np.maximum,
        "min": np.minimum,
        "and_": np.bitwise_and,
        "or_": np.bitwise_or,
        "xor": np.bitwise_xor,
    }
    with np.errstate(all="ignore"):
        array[index] = operations[name](array[index], typing.cast(value, array.dtype.name))


def _call(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(args), [])


def _dotted(node: ast.expr) -> str:
    return ast.unparse(node) if isinstance(node, ast.Attribute | ast.Name) else ""


class _Rewriter(ast.NodeTransformer):
    """Turns one generated function into a plain function or a generator over ``_t``."""

    def __init__(self, functions: set[str], generators: set[str]) -> None:
        self._functions = functions
        self._generators = generators

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.decorator_list = []
        node.args.args.insert(0, ast.arg("_t"))
        node.body = [self.visit(s) for s in node.body]
        if node.name == "kernel":
            node.body.append(ast.parse("if False: yield").body[0])
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if type(node.value) is int:
            return _call("_int64", node)
        return _call("_float64", node) if type(node.value) is float else node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        op = ast.Constant(_BINARY[type(node.op)])
        return _call("_binary", op, self.visit(node.left), self.visit(node.right))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        if isinstance(node.op, ast.Not):
            return ast.UnaryOp(node.op, self.visit(node.operand))
        op = "neg" if isinstance(node.op, ast.USub) else "invert"
        return _call("_unary", ast.Constant(op), self.visit(node.operand))

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        op = ast.Constant(_COMPARE[type(node.ops[0])])
        return _call("_compare", op, self.visit(node.left), self.visit(node.comparators[0]))

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        name = _dotted(node)
        if name.startswith("kd."):
            return ast.parse("_t." + name[3:], mode="eval").body
        return _call("_int64", node) if node.attr == "size" else node

    def visit_For(self, node: ast.For) -> ast.For:
        node.iter = _call("map", ast.Name("_int64", ast.Load()), self.visit(node.iter))
        node.body = [self.visit(s) for s in node.body]
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        name = _dotted(node.func)
        first, *rest = name.split(".")
        if first == "np" and rest[0] in typing.DTYPES:
            return _call("_cast", self.visit(node.args[0]), ast.Constant(rest[0]))
        if name in ("kd.shared.array", "kd.local.array"):
            dtype = ast.Constant(_dotted(node.args[1]).removeprefix("np."))
            target = ast.parse("_t." + rest[0], mode="eval").body
            return ast.Call(target, [ast.Constant(node.lineno), node.args[0], dtype], [])
        args = [self.visit(a) for a in node.args]
        if first == "kd" and rest[0] in _BARRIERS:
            vote = ast.Tuple([ast.Constant(rest[0]), *args], ast.Load())
            return ast.Yield(vote)
        if name.startswith("kd.atomic."):
            return _call("_atomic", ast.Constant(rest[1]), *args)
        if name in ("min", "max"):
            return _call("_extremum", ast.Constant(name), *args)
        if name == "np.sqrt":
            return _call("_sqrt", *args)
        if name in self._functions:
            call = ast.Call(node.func, [ast.Name("_t", ast.Load()), *args], [])
            return ast.YieldFrom(call) if name in self._generators else call
        node.args = args
        return node


def _namespace(text: str) -> dict[str, Any]:
    tree = ast.parse(text)
    definitions = [n for n in tree.body if isinstance(n, ast.FunctionDef)]
    functions = {d.name for d in definitions}
    generators: set[str] = {"kernel"}
    for definition in definitions:  # callees stand before their callers
        called = {_dotted(n.func) for n in ast.walk(definition) if isinstance(n, ast.Call)}
        if called & (generators | {f"kd.{b}" for b in _BARRIERS}):
            generators.add(definition.name)
    module = ast.Module([_Rewriter(functions, generators).visit(d) for d in definitions], [])
    namespace: dict[str, Any] = {
        "_int64": np.int64,
        "_float64": np.float64,
        "_binary": typing.binary,
        "_unary": typing.unary,
        "_compare": typing.compare,
        "_cast": typing.cast,
        "_extremum": typing.extremum,
        "_sqrt": typing.square_root,
        "_atomic": _atomic,
    }
    exec(compile(ast.fix_missing_locations(module), "<oracle>", "exec"), namespace)
    return namespace


def run(text: str, grid: int, block: tuple[int, int], args: tuple[Any, ...]) -> None:
    """Run the program's ``kernel`` on arrays, in place.

    Parameters
    ----------
    text : str
        The program.
    grid : int
        Number of blocks, along x.
    block : tuple of int
        Threads of a block, along x and y.
    args : tuple
        Arrays and NumPy scalars.
    """
    kernel = _namespace(text)["kernel"]
    for block_idx in range(grid):
        shared: dict[int, np.ndarray] = {}
        threads = [
            kernel(_Thread((x, y), block_idx, block, shared), *args)
            for y in range(block[1])
            for x in range(block[0])
        ]
        _run_block(threads)


def _run_block(threads: list[Generator[Any, Any, None]]) -> None:
    answers: list[Any] = [None] * len(threads)
    alive = threads
    while alive:
        waiting, stops = [], []
        for thread, answer in zip(alive, answers, strict=True):
            try:
                stops.append(thread.send(answer))
                waiting.append(thread)
            except StopIteration:
                continue
        assert len({s[0] for s in stops}) <= 1, "the program's barriers diverge"
        votes = [bool(s[1]) for s in stops if len(s) > 1]
        kind = stops[0][0] if stops else ""
        result = {
            "syncthreads_count": sum(votes),
            "syncthreads_and": int(all(votes)),
            "syncthreads_or": int(any(votes)),
        }.get(kind)
        answers = [None if result is None else np.int32(result)] * len(waiting)
        alive = waiting
