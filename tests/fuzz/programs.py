"""Random programs: device functions, a kernel, and the arguments and shape of its launch.

Threads exchange values without a race: each writes its own slot of a shared array, all wait, each
reads the slot of a permutation, all wait. Slots are filled before any thread can return.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tests.fuzz.expressions import Expression, ExpressionBuilder, Function
from tests.fuzz.typing import DTYPES, INTEGERS

__all__ = ["Program", "programs"]

_ATOMICS = ("add", "sub", "max", "min", "and_", "or_", "xor")
_INDENT = "    "


@dataclass(frozen=True)
class Program:
    """A generated program.

    Parameters
    ----------
    text : str
        Source of the device functions and of ``kernel``.
    grid : int
        Blocks, along x.
    block : tuple of int
        Threads of a block, along x and y.
    inputs, outputs, accumulators : tuple of str
        dtypes of the arrays, of one element a thread (four for an accumulator).
    size : int
        Number of elements; threads beyond it return or do nothing.
    steps : int
        A uniform trip count.
    seed : int
        Of the arrays' contents.
    """

    text: str
    grid: int
    block: tuple[int, int]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    accumulators: tuple[str, ...]
    size: int
    steps: int
    seed: int

    def features(self) -> set[str]:
        """Names of what the program uses."""
        words = {
            "barrier": "kd.syncthreads",
            "shared array": "kd.shared.array",
            "device function": "@kd.func",
            "atomic": "kd.atomic",
            "private array": "kd.local.array",
            "early return": "return\n",
            "loop": "for k",
            "while": "while ",
            "vote": "syncthreads_",
        }
        found = {name for name, word in words.items() if word in self.text}
        return found | ({"two-dimensional block"} if self.block[1] > 1 else set())


class _KernelBuilder:
    """Writes the statements of one kernel."""

    def __init__(self, draw: Any, threads: int, functions: list[Function]) -> None:
        self.draw = draw
        self.threads = threads
        self.expressions = ExpressionBuilder(draw, functions=functions)
        self.lines: list[str] = []
        self.variables: list[Expression] = []
        self.shared: list[Expression] = []
        self.exchanges: list[str] = []
        self.private: Expression | None = None
        self.accumulators: list[tuple[str, str, str]] = []
        self.may_return = False
        self._names = 0

    def emit(self, level: int, text: str) -> None:
        self.lines.append(_INDENT * level + text)

    def fresh(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    # -- statements that every thread may do on its own ----------------------------------------
    def block(self, level: int, budget: int, in_loop: bool = False) -> None:
        """Write one to three statements of varying control."""
        for _ in range(self.draw(st.integers(1, 3))):
            kinds = ["assign", "assign", "assign"]
            if budget > 0:
                kinds += ["if", "for", "while"]
            if self.accumulators:
                kinds.append("atomic")
            if self.private is not None:
                kinds.append("private")
            if in_loop:
                kinds.append("leave")
            if self.may_return:
                kinds.append("return")
            getattr(self, "_" + self.expressions.choose(kinds))(level, budget, in_loop)

    def _assign(self, level: int, budget: int = 0, in_loop: bool = False) -> None:
        variable = self.expressions.choose(self.variables)
        self.emit(level, f"{variable.text} = {self.expressions.of_type(variable.dtype, 2)}")

    def _if(self, level: int, budget: int, in_loop: bool) -> None:
        self.emit(level, f"if {self.expressions.condition(1)}:")
        self.block(level + 1, budget - 1, in_loop)
        if self.expressions.chance(2):
            self.emit(level, "else:")
            self.block(level + 1, budget - 1, in_loop)

    def _for(self, level: int, budget: int, in_loop: bool) -> None:
        count = self.expressions.choose(("2", "3", "steps"))
        name = self.fresh("k")
        self.emit(level, f"for {name} in range({count}):")
        self.block(level + 1, budget - 1, in_loop=True)
        variable = self.expressions.choose(self.variables)
        self.emit(level + 1, f"{variable.text} = np.{variable.dtype}({name} + 1)")

    def _while(self, level: int, budget: int, in_loop: bool) -> None:
        name = self.fresh("w")
        self.emit(level, f"{name} = 0")
        self.emit(level, f"while {name} < 3 and {self.expressions.condition(0)}:")
        self.emit(level + 1, f"{name} += 1")
        self.block(level + 1, budget - 1, in_loop=True)

    def _leave(self, level: int, budget: int, in_loop: bool) -> None:
        self.emit(level, f"if {self.expressions.condition(0)}:")
        self.emit(level + 1, self.expressions.choose(("break", "continue")))

    def _return(self, level: int, budget: int, in_loop: bool) -> None:
        self.emit(level, f"if {self.expressions.condition(1)}:")
        self.emit(level + 1, "return")

    def _atomic(self, level: int, budget: int, in_loop: bool) -> None:
        name, op, dtype = self.expressions.choose(self.accumulators)
        value = self.expressions.of_type(dtype, 1)
        self.emit(level, f"kd.atomic.{op}({name}, i % 4, {value})")

    def _private(self, level: int, budget: int, in_loop: bool) -> None:
        assert self.private is not None
        array, dtype = self.private.text, self.private.dtype
        self.emit(level, f"{array}[{self.draw(st.integers(0, 2))}] = np.{dtype}(i)")
        variable = self.expressions.choose(self.variables)
        self.emit(level, f"{array}[i % 3] = {self.expressions.of_type(dtype, 1)}")
        self.emit(level, f"{variable.text} = {self._read_private(variable.dtype)}")

    def _read_private(self, dtype: str) -> str:
        assert self.private is not None
        if self.private.dtype == dtype:
            return f"{self.private.text}[(i + 1) % 3]"
        value = Expression(f"{self.private.text}[(i + 1) % 3]", self.private.dtype)
        return self.expressions._convert(value, dtype)

    # -- statements that the whole block does together -----------------------------------------
    def together(self, level: int, budget: int) -> None:
        """Write one to three statements of uniform control, barriers among them."""
        for _ in range(self.draw(st.integers(1, 3))):
            kinds = ["exchange", "exchange", "alone", "vote"]
            if self.exchanges:
                kinds += ["exchange_by_function", "exchange_by_function"]
            if budget > 0:
                kinds += ["uniform_for", "uniform_if"]
            getattr(self, "_" + self.expressions.choose(kinds))(level, budget)

    def _alone(self, level: int, budget: int) -> None:
        self.block(level, 1)

    def _slot(self) -> str:
        shift = self.draw(st.integers(1, max(1, self.threads - 1)))
        return self.expressions.choose(
            (f"(t + {shift}) % {self.threads}", f"{self.threads - 1} - t")
        )

    def _target(self, dtype: str) -> str:
        same = [v for v in self.variables if v.dtype == dtype]
        return self.expressions.choose(same).text

    def _exchange(self, level: int, budget: int) -> None:
        array = self.expressions.choose(self.shared)
        self.emit(level, f"{array.text}[t] = {self.expressions.of_type(array.dtype, 2)}")
        self.emit(level, "kd.syncthreads()")
        self.emit(level, f"{self._target(array.dtype)} = {array.text}[{self._slot()}]")
        if self.expressions.chance(3):
            self._assign(level)
        self.emit(level, "kd.syncthreads()")

    def _exchange_by_function(self, level: int, budget: int) -> None:
        array = self.expressions.choose(self.shared)
        name = self.expressions.choose(self.exchanges)
        value = self.expressions.of_type(array.dtype, 1)
        self.emit(level, f"{self._target(array.dtype)} = {name}({array.text}, t, {value})")

    def _vote(self, level: int, budget: int) -> None:
        variable = self.expressions.choose(self.variables)
        kind = self.expressions.choose(("count", "and", "or"))
        name = self.fresh("c")
        self.emit(level, f"{name} = kd.syncthreads_{kind}({self.expressions.condition(1)})")
        self.emit(level, f"{variable.text} = np.{variable.dtype}({name})")

    def _uniform_for(self, level: int, budget: int) -> None:
        count = self.expressions.choose(("2", "3", "steps"))
        name = self.fresh("k")
        self.emit(level, f"for {name} in range({count}):")
        if self.expressions.chance(3):
            self.emit(level + 1, f"if {name} == steps - 1:")
            self.emit(level + 2, self.expressions.choose(("break", "continue")))
        self.together(level + 1, budget - 1)

    def _uniform_if(self, level: int, budget: int) -> None:
        test = self.expressions.choose(("steps > 1", "kd.blockIdx.x == 0", "steps % 2 == 0"))
        self.emit(level, f"if {test}:")
        self.together(level + 1, budget - 1)
        if self.expressions.chance(2):
            self.emit(level, "else:")
            self.together(level + 1, 0)


def _device_functions(draw: Any) -> tuple[list[Function], list[str]]:
    functions: list[Function] = []
    lines: list[str] = []
    for number in range(draw(st.integers(0, 2))):
        dtype = draw(st.sampled_from(DTYPES))
        # Parameters are converted first, as a function is compiled for any types.
        first, second = (draw(st.sampled_from(DTYPES)) for _ in range(2))
        scope = [Expression("a", first), Expression("b", second)]
        builder = ExpressionBuilder(draw, scope, list(functions))
        lines += ["@kd.func", f"def helper{number}(p, q):"]
        lines += [f"    a = {_safe(first, 'p')}", f"    b = {_safe(second, 'q')}"]
        if builder.chance(2):
            lines += [
                f"    if {builder.condition(1)}:",
                f"        return {builder.of_type(dtype, 1)}",
            ]
        lines += [f"    return {builder.of_type(dtype, 2)}", "", ""]
        functions.append(Function(f"helper{number}", 2, dtype))
    return functions, lines


def _safe(dtype: str, name: str) -> str:
    """Convert a parameter of any dtype without leaving the range of an integer."""
    if dtype in INTEGERS:
        low = "0" if dtype.startswith("u") else "-1000"
        return f"np.{dtype}({name}) if {name} >= {low} and {name} < 1000 else np.{dtype}(5)"
    return f"np.{dtype}({name})"


def _exchange_function(number: int, threads: int) -> list[str]:
    return [
        "@kd.func",
        f"def exchange{number}(s, t, value):",
        "    s[t] = value",
        "    kd.syncthreads()",
        f"    result = s[(t + {number + 1}) % {threads}]",
        "    kd.syncthreads()",
        "    return result",
        "",
        "",
    ]


@st.composite
def programs(draw: Any) -> Program:
    """Draw a program."""
    block = draw(
        st.sampled_from(((1, 1), (7, 1), (16, 1), (32, 1), (33, 1), (4, 4), (5, 3), (8, 2), (3, 7)))
    )
    threads = block[0] * block[1]
    grid = draw(st.integers(1, 3))
    functions, lines = _device_functions(draw)
    builder = _KernelBuilder(draw, threads, functions)
    uses_barriers = draw(st.integers(0, 3)) > 0
    builder.may_return = draw(st.booleans())
    is_partial = draw(st.booleans())
    size = grid * threads - (draw(st.integers(0, threads - 1)) if is_partial else 0)

    inputs = tuple(draw(st.lists(st.sampled_from(DTYPES), min_size=1, max_size=3)))
    dtypes = tuple(draw(st.lists(st.sampled_from(DTYPES), min_size=2, max_size=4)))
    accumulators = tuple(draw(st.lists(st.sampled_from(INTEGERS), max_size=1)))
    header = [f"x{n}" for n in range(len(inputs))] + [f"out{n}" for n in range(len(dtypes))]
    header += [f"acc{n}" for n in range(len(accumulators))] + ["steps"]

    if uses_barriers and draw(st.booleans()):
        lines += _exchange_function(0, threads)
        builder.exchanges.append("exchange0")
    _body(builder, uses_barriers, is_partial, inputs, dtypes, accumulators)
    lines += ["@kd.kernel(contract=False)", f"def kernel({', '.join(header)}):", *builder.lines]
    return Program(
        "\n".join(["import numpy as np", "import kerneldsl as kd", "", "", *lines]) + "\n",
        grid,
        block,
        inputs,
        dtypes,
        accumulators,
        size,
        draw(st.integers(0, 4)),
        draw(st.integers(0, 2**32 - 1)),
    )


def _body(
    builder: _KernelBuilder,
    uses_barriers: bool,
    is_partial: bool,
    inputs: tuple[str, ...],
    dtypes: tuple[str, ...],
    accumulators: tuple[str, ...],
) -> None:
    draw, emit = builder.draw, builder.emit
    emit(1, "t = kd.threadIdx.x + kd.threadIdx.y * kd.blockDim.x")
    emit(1, f"i = t + kd.blockIdx.x * {builder.threads}")
    if uses_barriers:
        for number in range(draw(st.integers(1, 2))):
            dtype = draw(st.sampled_from(dtypes))
            emit(1, f"s{number} = kd.shared.array({builder.threads}, np.{dtype})")
            emit(1, f"s{number}[t] = np.{dtype}(t)")
            builder.shared.append(Expression(f"s{number}", dtype))
        emit(1, "kd.syncthreads()")
    if is_partial:
        emit(1, "if i >= out0.size:")
        emit(2, "return")
    scope = builder.expressions.variables
    scope += [Expression(f"x{n}[i]", d) for n, d in enumerate(inputs)]
    scope += [Expression("i", "int64"), Expression("t", "int64"), Expression("steps", "int64")]
    for number, dtype in enumerate(dtypes):
        emit(1, f"v{number} = {builder.expressions.of_type(dtype, 1)}")
        builder.variables.append(Expression(f"v{number}", dtype))
        scope.append(builder.variables[-1])
    if draw(st.integers(0, 2)) == 0:
        dtype = draw(st.sampled_from(DTYPES))
        emit(1, f"m = kd.local.array(3, np.{dtype})")
        for k in range(3):
            emit(1, f"m[{k}] = np.{dtype}({k + 1})")
        builder.private = Expression("m", dtype)
    for number, dtype in enumerate(accumulators):
        builder.accumulators.append((f"acc{number}", draw(st.sampled_from(_ATOMICS)), dtype))
    for number in range(len(dtypes)):
        emit(1, f"out{number}[i] = v{number}")
    builder.block(1, 2)
    if uses_barriers:
        builder.together(1, 2)
        builder.block(1, 1)
    for number in range(len(dtypes)):
        emit(1, f"out{number}[i] = v{number}")
