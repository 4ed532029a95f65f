"""Renames what a program defines, so that nothing depends on how users call their things."""

from __future__ import annotations

import ast
import builtins
import itertools
import random

__all__ = ["HOSTILE", "plain_names", "renamed"]

#: Words that a compiler may use itself, pairs that number themselves, Python's own, and letters.
HOSTILE = (
    *("count", "count_0", "counter", "active", "active_0", "activex", "vote", "vote_x", "vote_0"),
    *("types", "types_0", "types_1", "typesx", "mask", "mask_", "mask_0", "masked", "saved"),
    *("saved_0", "saved_1", "saved_N", "step", "step1", "step11", "step_1", "left", "left_0"),
    *("slot", "slot_0", "slots", "stage", "stage1", "stage11", "stage_", "f", "f1", "f11", "f_1"),
    *("thread", "lane", "row", "unit", "block", "segment", "first", "last", "total", "space"),
    *("scratch", "launch", "fault", "result", "value", "call", "called", "returned", "done"),
    *("hoisted", "inlined", "temp", "tmp", "tmp1", "guard", "flag", "loop", "body", "entry"),
    *("grid", "gridsize", "threadIdx", "blockIdx", "blockDim", "syncthreads", "atomic", "shared"),
    *("local", "uniform", "laneid", "cuda", "numba", "kdx", "make", "make_0", "x", "y", "z", "i"),
    *("j", "k", "n", "t", "tx", "ty", "_", "__", "_x", "x_", "x1", "x11", "x_1", "kernel_", "self"),
    *(
        "match",
        "case",
        "type",
        "größe",
        "λ",
        "Δt",
        "naïve",
        "seg",
        "nx",
        "ny",
        "bx",
        "gx",
        "types__",
    ),
    *("tile", "number", "element", "buffer", "room", "own", "at", "load", "store", "sort"),
    *("arg", "args", "arg0", "arg_0", "ret", "retval", "data", "main", "malloc", "free", "memcpy"),
    *("range", "min", "max", "abs", "int", "float", "len", "sum", "print", "map", "id", "input"),
    *("list", "tuple", "slice", "object", "bool", "round", "pow", "divmod", "zip", "iter", "next"),
    *("hash", "dir", "vars", "all", "any", "bin", "hex", "set", "dict", "str", "super", "open"),
)
_KEPT = {"kd", "np", "math", "kernel", "True", "False", "None"}


def _bound(node: ast.AST) -> set[str]:
    """Names that a function binds: parameters and assigned variables."""
    found = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and not _is_load(n)}
    return found | {n.arg for n in ast.walk(node) if isinstance(n, ast.arg)}


def _is_load(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Load)


def _read(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


class _Renamer(ast.NodeTransformer):
    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self.names.get(node.id, node.id), node.ctx)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.arg(self.names.get(node.arg, node.arg))


def renamed(text: str, rng: random.Random) -> str:
    """Return the program with other names for its constants, functions and variables.

    A variable may be called as one of another function, or as a constant or function that its own
    does not use.
    """
    tree = ast.parse(text)
    functions = [n for n in tree.body if isinstance(n, ast.FunctionDef)]
    rest = [n for n in tree.body if not isinstance(n, ast.FunctionDef | ast.Import)]
    outer = set().union(*(_bound(n) for n in rest), (f.name for f in functions)) - _KEPT
    used = (_read(tree) & set(dir(builtins))) | _KEPT
    pool = [n for n in HOSTILE if n not in used]
    names = dict(zip(sorted(outer), _choose(pool, used, len(outer), rng), strict=True))
    outer_names = _Renamer(names)
    for node in rest:
        outer_names.visit(node)
    for function in functions:
        inner = _bound(function)
        taken = {names[n] for n in (_read(function) - inner) & outer}
        free = [n for n in pool if n not in taken]
        local = dict(zip(sorted(inner), _choose(free, used | taken, len(inner), rng), strict=True))
        _Renamer({**names, **local}).visit(function)
        function.name = names.get(function.name, function.name)
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def _choose(pool: list[str], taken: set[str], count: int, rng: random.Random) -> list[str]:
    """Names from all over the pool, or one with numbers: step, step1, step11."""
    if rng.randrange(3):
        return rng.sample(pool, count)
    word = rng.choice(("step", "count", "f", "x", "saved", "types_", "k"))
    family = [
        word,
        *(f"{word}{n}" for n in ("1", "11", "_", "_1", "0", "10", "2", "12", "1_", "_0")),
    ]
    family += [f"{word}_{n}" for n in range(2, count)]
    free = [n for n in family if n not in taken]
    others = (f"{word}_{n}" for n in itertools.count(max(count, 2)))
    free += itertools.islice((n for n in others if n not in taken), max(count - len(free), 0))
    return rng.sample(free, count)


def plain_names(text: str) -> str:
    """Return the program as :func:`renamed` lays it out, with its names as they are."""
    return ast.unparse(ast.parse(text)) + "\n"
