"""Index expressions that are proven not to be negative, and none that can be."""

from __future__ import annotations

import ast
import builtins
import itertools
import math
import operator
import random
import textwrap
import types
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.analysis import ranges
from kerneldsl.analysis.followed_names import followed_names
from kerneldsl.analysis.library_names import name_of_function
from kerneldsl.analysis.ranges import nonnegative_indices
from kerneldsl.frontend.normalize import make_unit
from tests.support.extent import examples

#: What names outside the functions of these tests mean.
NAMESPACE = {**vars(builtins), "np": np}


def is_id(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id.startswith("kd_")


def proven(body: str, parameters: str = "a, n, s, f", **constants: Any) -> list[str]:
    """Texts of the proven indices of a function's body, in the order of the source."""
    tree = ast.parse(f"def k({parameters}):\n{textwrap.indent(textwrap.dedent(body), '    ')}")
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    found = nonnegative_indices(function, is_id, constants, namespace=NAMESPACE)
    return [ast.unparse(n) for n in sorted(found, key=lambda n: (n.lineno, n.col_offset))]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("i = kd_grid_0()\na[i] = a[i + 1]", ["i", "i + 1"]),
        ("i = kd_grid_0()\na[i - 1]", []),
        ("i = kd_grid_0()\nif i > 0:\n    a[i - 1]", ["i - 1"]),
        ("i = kd_grid_0()\nif i >= 1 and a[i - 1]:\n    a[i - 2]", ["i - 1"]),
        ("i = kd_grid_0()\nif 0 < i < n - 1:\n    a[i - 1] = a[i + 1]", ["i - 1", "i + 1"]),
        ("i = kd_grid_0()\nif i == 0 or i >= n - 1:\n    return\na[i - 1]", ["i - 1"]),
        ("i, j = kd_grid_0()\nif i < 1 or j < 2:\n    return\na[i - 1, j - 2]", ["i - 1", "j - 2"]),
        ("i = kd_grid_0()\nif i >= s:\n    a[i - s]", ["i - s"]),
        ("i = kd_grid_0()\nif i >= s:\n    i = i - 1\n    a[i - s]", []),
        ("i = kd_grid_0()\nif i < n:\n    a[n - 1 - i]", ["n - 1 - i"]),
        ("i = kd_grid_0()\nif i < n:\n    j = n - 1 - i\n    a[j]", ["j"]),
        ("for i in range(n):\n    a[i]", ["i"]),
        ("for i in range(1, n):\n    a[i - 1]", ["i - 1"]),
        ("for i in range(s, n):\n    a[i]\n    a[i - s]", ["i - s"]),
        ("for i in range(kd_threadIdx_x_0(), n, kd_blockDim_x_0()):\n    a[i]", ["i"]),
        ("for i in range(n - 1, -1, -1):\n    a[i]", ["i"]),
        ("for i in range(n, 0, -2):\n    a[i - 1]", ["i - 1"]),
        ("a[kd_threadIdx_x_0() - 1]", []),
        ("if kd_threadIdx_x_0() > 0:\n    a[kd_threadIdx_x_1() - 1]", ["kd_threadIdx_x_1() - 1"]),
        ("a[kd_blockDim_x_0() - 1 - kd_threadIdx_x_0()]",
         ["kd_blockDim_x_0() - 1 - kd_threadIdx_x_0()"]),
        ("t = kd_threadIdx_x_0()\nb = kd_blockDim_x_0()\na[b - t - 1]", ["b - t - 1"]),
        (
            "t = kd_threadIdx_x_0()\nr = kd_blockDim_x_0() // 2\nwhile r > 0:\n"
            "    if t < r:\n        a[t] = a[t] + a[t + r]\n    r //= 2",
            ["t", "t", "t + r"],
        ),
        (
            "t = kd_threadIdx_x_0()\nd = 1\nwhile d < n:\n    if t >= d:\n        a[t - d]\n"
            "    d *= 2",
            ["t - d"],
        ),
        ("i = kd_grid_0()\nwhile i < n:\n    a[i]\n    i += kd_gridsize_0()", ["i"]),
        ("i = 0\nwhile True:\n    i -= 1\n    a[i]\n    if i < -3:\n        break", []),
        ("i = kd_grid_0()\na[max(i - 1, 0)] = a[min(i + 1, n)]", ["max(i - 1, 0)"]),
        ("i = kd_grid_0()\na[i - 1 if i > 0 else 0]", ["i - 1 if i > 0 else 0"]),
        ("i = kd_grid_0()\nj = i // 16\nk = i % 16\na[j * 16 + k, k ^ j, j << 2]",
         ["j * 16 + k", "k ^ j", "j << 2"]),
        ("a[s & 7, s % 4, abs(s), s | 1]", ["s & 7", "s % 4", "abs(s)"]),
        ("a[a.size - 1, len(a), a.shape[0]]", ["len(a)", "a.shape[0]"]),
        ("h, w = a.shape\na[h, w - 1]\nif w > 2:\n    a[w - 2]", ["h", "w - 2"]),
        ("a[s]", []),
        ("a[a[0]]", ["0"]),
        ("a[int(f)]", []),
        ("if f > 0:\n    a[int(f) - 1]", []),
        ("i = kd_grid_0()\na[int(i), np.int32(i), np.int8(i)]", ["int(i)", "np.int32(i)"]),
        ("if s >= 0:\n    a[s]\n    s = a[0]\n    a[s]", ["s", "0"]),
        ("if s < 0:\n    raise ValueError('negative')\na[s]", []),
        ("assert s >= 0\na[s]", []),
        ("i = kd_grid_0()\nfor _ in range(n):\n    if i == 0:\n        continue\n    a[i - 1]",
         ["i - 1"]),
        ("i = kd_grid_0()\na[i:n, i]", ["i"]),
        # Of a float, "greater than 0" is not "at least 1".
        ("i = kd_grid_0()\nif f > 0 and i > f - 1:\n    a[i - 1]", []),
        ("i = kd_grid_0()\nif s > 0 and i > s - 1:\n    a[i - s]", ["i - s"]),
        ("i = kd_grid_0()\nx = i - 3\nif x >= 0:\n    a[x]\nelse:\n    a[-x]", ["x", "-x"]),
    ],
)  # fmt: skip
def test_known_cases(body: str, expected: list[str]) -> None:
    assert proven(body) == expected


def test_constants_are_used() -> None:
    assert proven("i = kd_grid_0()\na[i + PAD]", PAD=2) == ["i + PAD"]
    assert proven("i = kd_grid_0()\na[i + PAD]", PAD=-2) == []


def test_a_unit_brings_its_intrinsics() -> None:
    def kernel(a, n):
        i = kd.grid(1)
        if i < n:
            a[i] = a[i - 1] + kd.threadIdx.y

    unit = make_unit(kernel)
    assert sorted(ast.unparse(n) for n in nonnegative_indices(unit)) == ["i"]


class Programs:
    """Random small functions of integers, some of whose arguments may be floats."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.names = ["n", "s", "t", "u", "v"]
        self.loops = 0

    def pick(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def expression(self, depth: int = 2) -> str:
        r = self.random
        if depth == 0 or r.random() < 0.3:
            return self.pick(
                *self.names, str(r.randint(-2, 3)), "a.size", "kd_threadIdx_x_0()", "f",
                "a.shape[0]",
            )  # fmt: skip
        x, y = self.expression(depth - 1), self.expression(depth - 1)
        return self.pick(
            f"({x} + {y})", f"({x} - {y})", f"({x} - 1)", f"({x} * {y})",
            f"({x} // {self.pick(2, 3)})",
            f"({x} % {self.pick(2, 3)})", f"min({x}, {y})", f"max({x}, {y})", f"abs({x})",
            f"({x} if {self.condition(0)} else {y})", f"int({x})", "a[0]", f"-{x}",
        )  # fmt: skip

    def condition(self, depth: int = 1) -> str:
        r = self.random
        if depth and r.random() < 0.35:
            x, y = self.condition(depth - 1), self.condition(depth - 1)
            return self.pick(f"({x} and {y})", f"({x} or {y})", f"(not {x})")
        x, y = self.expression(depth), self.expression(depth)
        op = self.pick("<", "<=", ">", ">=", "==", "!=")
        if r.random() < 0.2:
            return f"({self.pick(0, -1, 1)} {self.pick('<', '<=')} {x} {self.pick('<', '<=')} {y})"
        return f"({x} {op} {y})"

    def guarded_access(self, indent: str) -> list[str]:
        """An index close to what its guard permits, where a small mistake would show."""
        r = self.random
        x, y = (
            r.choice([*self.names, "f", "f"]),
            r.choice([*self.names, "f", "f - 1", "0", "1", "2"]),
        )
        test = f"{self.pick('', 'not ')}{x} {self.pick('<', '<=', '>', '>=', '==', '!=')} {y}"
        if r.random() < 0.3:
            z = r.choice(["f", *self.names])
            test += f" and {z} {self.pick('>', '>=')} {self.pick('f - 1', 'f', '0', '1')}"
            x = self.pick(x, z)
        access = f"a[{self.pick(x, f'int({x})', f'int({x} * 2)')} - {self.pick(0, 0, 1, 1, 2, y)}]"
        if r.random() < 0.3:
            return [
                f"{indent}if {test}:",
                f"{indent}    pass",
                f"{indent}else:",
                f"{indent}    {access}",
            ]
        return [f"{indent}if {test}:", f"{indent}    {access}"]

    def statement(self, depth: int, indent: str, in_loop: bool) -> list[str]:
        if self.random.random() < 0.3:
            return self.guarded_access(indent)
        r = self.random.random()
        if depth == 0 or r < 0.25:
            return [f"{indent}a[{self.expression()}]"]
        if r < 0.45:
            name = self.pick("u", "v", "t", "s")
            return [f"{indent}{name} {self.pick('=', '=', '+=', '-=', '//=')} "
                    f"{self.expression() if r < 0.4 else self.pick(1, 2)} or 1"]  # fmt: skip
        if r < 0.5:
            return [f"{indent}u, v = {self.pick('v, u', 'u + 1, v - 1', 'a.shape')}"]
        if r < 0.55 and in_loop:
            return [
                f"{indent}if {self.condition()}:",
                f"{indent}    {self.pick('break', 'continue')}",
            ]
        if r < 0.6:
            return [f"{indent}if {self.condition()}:", f"{indent}    return"]
        if r < 0.8:
            lines = [f"{indent}if {self.condition()}:", *self.block(depth - 1, indent, in_loop)]
            if self.random.random() < 0.5:
                lines += [f"{indent}else:", *self.block(depth - 1, indent, in_loop)]
            return lines
        if r < 0.9:
            bounds = self.pick(
                self.expression(1), f"{self.expression(1)}, {self.expression(1)}",
                f"{self.expression(1)}, {self.expression(1)}, {self.pick(1, 2, -1, -2)}",
            )  # fmt: skip
            name = self.pick("u", "v", "i")
            self.names.append(name)
            body = self.block(depth - 1, indent, True)
            return [f"{indent}for {name} in range({bounds}):", *body]
        return [
            f"{indent}while {self.condition()} and tick():",
            *self.block(depth - 1, indent, True),
        ]

    def block(self, depth: int, indent: str, in_loop: bool) -> list[str]:
        inner = indent + "    "
        count = self.random.randint(1, 4)
        return [line for _ in range(count) for line in self.statement(depth, inner, in_loop)]

    def function(self) -> str:
        start = ["    t = kd_threadIdx_x_0()", "    u = 0", "    v = n", "    i = 0"]
        return "\n".join(["def k(a, n, s, f):", *start, *self.block(3, "", False)])


class Array:
    """Takes every index, and gives every load a value of either sign."""

    shape = (2, 3)
    size = 6

    def __getitem__(self, index: Any) -> int:
        return self.values.pop() if self.values else 0

    def __init__(self) -> None:
        self.values = [-2, 3, -1, 0, 1]


class OutOfTime(Exception):
    pass


class Negative(Exception):
    pass


def check_program(text: str) -> int:
    """Run a program on many arguments; the number of its proven indices."""
    tree = ast.parse(text)
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    found = nonnegative_indices(function, is_id, namespace=NAMESPACE)

    class Instrument(ast.NodeTransformer):
        def generic_visit(self, node: ast.AST) -> ast.AST:
            super().generic_visit(node)
            if node in found:
                return ast.Call(ast.Name("check", ast.Load()), [node], [])
            return node

    instrumented = ast.fix_missing_locations(Instrument().visit(tree))
    budget = [0]

    def tick() -> bool:
        budget[0] -= 1
        if budget[0] < 0:
            raise OutOfTime
        return True

    def check(value: Any) -> Any:
        tick()
        if isinstance(value, int) and value < 0:
            raise Negative(value)
        return value

    for n, s, f, t in itertools.product((-2, 0, 3), (-1, 1, 4), (-1, 0.5, 2.5), (0, 2)):
        scope = {
            "check": check,
            "tick": tick,
            "kd_threadIdx_x_0": lambda t=t: t,
            "range": lambda *bounds: itertools.islice(range(*bounds), 8),
        }
        exec(compile(instrumented, "generated", "exec"), scope)
        budget[0] = 60
        try:
            scope["k"](Array(), n, s, f)
        except (OutOfTime, TypeError, ZeroDivisionError, OverflowError, UnboundLocalError):
            pass  # an endless loop, or a float where an integer is needed: no such kernel
        except Negative:
            shown = [ast.unparse(x) for x in found]
            pytest.fail(f"negative index for {n=} {s=} {f=} {t=}; proven {shown}\n{text}")
    return len(found)


@pytest.mark.parametrize("seed", range(4))
def test_random_programs_never_refute_a_proof(seed: int) -> None:
    total = 0
    for i in range(examples(60)):
        total += check_program(Programs(seed * 1000 + i).function())
    assert total > 20 * examples(60) // 60, "the programs hold too little that can be proven"


def _proven_of_all(function: ast.FunctionDef, monkeypatch: pytest.MonkeyPatch) -> set[ast.expr]:
    """Proven indices where every variable is followed."""
    names = frozenset(n.id for n in ast.walk(function) if isinstance(n, ast.Name))
    with monkeypatch.context() as patch:
        patch.setattr(ranges, "followed_names", lambda *arguments, compared: names)
        return nonnegative_indices(function, is_id, namespace=NAMESPACE)


@pytest.mark.parametrize("seed", range(2))
def test_variables_that_are_not_followed_prove_no_index(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in range(examples(60)):
        text = Programs(9000 + seed * 1000 + i).function()
        function = ast.parse(text).body[0]
        assert isinstance(function, ast.FunctionDef)
        found = nonnegative_indices(function, is_id, namespace=NAMESPACE)
        assert _proven_of_all(function, monkeypatch) <= found, text


def test_values_are_not_followed() -> None:
    text = """
def k(a, n, v):
    i = kd_grid_0()
    j = i + n
    w = v * 2
    while w > v:
        w = w - a[j]
    if i < n:
        a[i] = w
"""
    function = ast.parse(text).body[0]
    assert isinstance(function, ast.FunctionDef)
    assert followed_names(function, compared=False) == {"i", "j", "n", "kd_grid_0"}
    assert "w" not in followed_names(function, compared=True)


#: A body with one index, which is proven where NAME is what the second entry says.
_KNOWN_FUNCTIONS = {
    "abs": ("a[NAME(s)]", abs),
    "len": ("a[NAME(n)]", len),
    "max": ("a[NAME(s, 0)]", max),
    "max assigned": ("i = NAME(s, 0)\na[i]", max),
    "min": ("a[NAME(kd_grid_0(), kd_grid_1())]", min),
    "int": ("a[NAME(kd_grid_0())]", int),
    "range": ("for i in NAME(n):\n    a[i]", range),
    "int32": ("a[NAME(kd_grid_0())]", np.int32),
    "int64": ("a[NAME(kd_grid_0())]", np.int64),
    "uint32": ("a[NAME(s)]", np.uint32),
    "uint64": ("a[NAME(s)]", np.uint64),
}


def _proven_with(body: str, called: str, **namespace: Any) -> list[str]:
    text = textwrap.indent(body.replace("NAME", called), "    ")
    function = ast.parse(f"def k(a, n, s):\n{text}").body[0]
    assert isinstance(function, ast.FunctionDef)
    return [ast.unparse(n) for n in nonnegative_indices(function, is_id, namespace=namespace)]


@pytest.mark.parametrize("case", _KNOWN_FUNCTIONS)
def test_a_function_is_known_by_what_its_name_is_bound_to(case: str) -> None:
    body, function = _KNOWN_FUNCTIONS[case]
    name = case.partition(" ")[0]
    own, other = types.ModuleType("numpy"), types.ModuleType("np")
    setattr(own, name, function)
    setattr(other, name, operator.neg)
    assert len(_proven_with(body, name, **{name: function})) == 1
    assert len(_proven_with(body, "another", another=function)) == 1
    assert len(_proven_with(body, f"library.{name}", library=own)) == 1
    for lie in (operator.neg, lambda *values: -1, np.negative, np.int16, None):
        assert _proven_with(body, name, **{name: lie}) == []
    assert _proven_with(body, name) == []  # a device function, a parameter, a local variable
    assert _proven_with(body, f"np.{name}", np=other) == []
    assert _proven_with(body, f"np.{name}", np=types.SimpleNamespace(**{name: function})) == []


def test_a_variable_hides_what_its_name_means_outside() -> None:
    for body in ("max = n\na[max(s, 0)]", "for abs in range(3):\n    a[abs(s)]"):
        assert "max(s, 0)" not in proven(body)
        assert "abs(s)" not in proven(body)
    assert proven("a[min(1, 2)]", "a, min") == []


def test_names_of_functions() -> None:
    import numba

    for function, name in (
        (min, "min"),
        (range, "range"),
        (np.intp, f"numpy.{np.dtype(np.intp).name}"),
        (np.longlong, "numpy.int64"),
        (np.abs, "numpy.absolute"),
        (np.copyto, "numpy.copyto"),
        (np.linalg.norm, "numpy.linalg.norm"),
        (math.sqrt, "math.sqrt"),
        (numba.uint32, "numba.uint32"),
        (numba.prange, "numba.misc.special.prange"),
        (np.integer, None),
        (operator.neg, None),
        (np.ones(3).sum, None),
        (np, None),
        (None, None),
    ):
        assert name_of_function(function) == name
    impostor = lambda x: -x
    for module, called in (("builtins", "abs"), ("numpy", "sum"), ("numpy.none", "sum")):
        impostor.__module__, impostor.__name__ = module, called
        assert name_of_function(impostor) is None
