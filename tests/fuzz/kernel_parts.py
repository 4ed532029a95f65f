"""What a kernel is made of before and after its statements: parameters, constants, outputs."""

from __future__ import annotations

import math
import random

from tests.fuzz.array_idioms import assignment, call_helper
from tests.fuzz.body import Body
from tests.fuzz.call_idioms import call_function
from tests.fuzz.expressions import USUAL, ArrayName, Expression, Expressions
from tests.fuzz.names import plain_names, renamed
from tests.fuzz.program import DATA_SETS, Array, Overlap, Scalar
from tests.fuzz.typing import DTYPES

__all__ = ["HEADER", "Kernel", "sizes_of"]

HEADER = ["import math", "import numpy as np", "import kerneldsl as kd", "", ""]
#: Scalars that guards compare coordinates with: of each dtype its ends, and places in between.
_LIMITS = {
    "int64": (2**63 - 1, 2**63 - 1, -(2**63), -(2**63), 2**63 - 2, 7, -1, 2**31, 2**32),
    "int32": (2**31 - 1, -(2**31), 5),
    "uint32": (2**32 - 1, 0, 9),
    "uint64": (2**64 - 1, 0, 2**63, 9),
    "uint8": (255, 0, 8),
    "int16": (32767, -32768, 6),
}
_ATOMICS = ("add", "add", "sub", "max", "min", "and_", "or_", "xor")
_COUNTERS = ("int32", "int64", "uint32", "uint64")


class Kernel:
    """Collects what a program is made of."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.lines = list(HEADER)
        self.parameters: list[Array | Overlap | Scalar] = []
        self.expressions = Expressions(self.rng)
        self.body = Body(self.rng, self.expressions)
        self.features = self.body.features
        self.options = ["contract=False"]

    def chance(self, one_in: int) -> bool:
        return self.rng.randrange(one_in) == 0

    # -- parameters ----------------------------------------------------------------------------
    def scalars(self) -> None:
        """A trip count, a divisor that every table is longer than, and a limit."""
        rng = self.rng
        self.parameters.append(Scalar("n", "int64", (rng.choice((5, 3, 20)), rng.randrange(6))))
        self.parameters.append(Scalar("m", "int64", (rng.choice((3, 2)), rng.randrange(1, 4))))
        dtype = rng.choice(("int64", "int64", *_LIMITS))
        values = tuple(rng.choice(_LIMITS[dtype]) for _ in range(DATA_SETS))
        self.parameters.append(Scalar("lim", dtype, values))
        self.expressions.values += [Expression("n", "int64"), Expression("m", "int64")]
        if dtype == "int64" and self.chance(3):
            self.expressions.values.append(Expression("lim", "int64"))
        if self.chance(2):
            dtype = rng.choice(("float64", "float32"))
            self.parameters.append(
                Scalar("w", dtype, (0.3, rng.choice((0.0, -0.0, 1e30, 2.5, math.nan, -math.inf))))
            )
            self.expressions.values.append(Expression("w", dtype))

    def tables(self) -> None:
        """Arrays of sizes of their own, read at any index."""
        rng = self.rng
        for number in range(rng.choice((1, 1, 2))):
            ndim = rng.choice((1, 1, 2, 2, 3))
            shapes = tuple(
                tuple(
                    rng.choice((4, 5, 7, 9, 16) if ndim > 1 else (5, 8, 12, 17))
                    for _ in range(ndim)
                )
                for _ in range(DATA_SETS)
            )
            name, dtype = f"y{number}", rng.choice(USUAL)
            self.parameters.append(Array(name, dtype, shapes))
            self.expressions.arrays.append(
                ArrayName(name, dtype, sizes_of(name, ndim), is_table=True)
            )

    def inputs(self, shapes: tuple[tuple[int, ...], ...], index: str, *, is_inside: bool) -> None:
        """Arrays like the output, of one element for each thread, or somewhat shorter."""
        ndim = len(shapes[0])
        for number in range(self.rng.choice((1, 2))):
            name, dtype = f"x{number}", self.rng.choice(USUAL)
            found = shapes
            if not is_inside:
                found = tuple((*s[:-1], max(1, s[-1] - self.rng.randrange(4))) for s in shapes)
            self.parameters.append(Array(name, dtype, found))
            inside = index if is_inside else None
            self.expressions.arrays.append(ArrayName(name, dtype, sizes_of(name, ndim), inside))

    def counters(self) -> None:
        if self.chance(3):
            dtype, op = self.rng.choice(_COUNTERS), self.rng.choice(_ATOMICS)
            self.parameters.append(Array("acc", dtype, ((4,),) * DATA_SETS, "counter"))
            self.body.counters.append(ArrayName("acc", dtype, ("acc.size",), op))

    def constants(self) -> None:
        """Captured flags, numbers and a read-only array."""
        rng, body = self.rng, self.body
        if self.chance(2):
            self.lines += [f"FLAG = {rng.random() < 0.4}", f"MODE = {rng.randrange(3)}", ""]
            body.flags += ["FLAG", "not FLAG", "MODE == 2", "MODE > 0", "FLAG and n > 1"]
            self.expressions.values.append(Expression("MODE", "int64"))
        if self.chance(4):
            dtype = rng.choice(DTYPES)
            values = [rng.randrange(100) for _ in range(5)]
            self.lines += [f"TABLE = np.array({values}, np.{dtype})"]
            self.lines += ["TABLE.flags.writeable = False", ""]
            self.expressions.arrays.append(
                ArrayName("TABLE", dtype, ("TABLE.size",), is_table=True)
            )
            self.features.add("captured array")
        if self.chance(4):
            self.lines += ["SCALE = np.float32(0.1)", "OFFSET = 2.5", ""]
            self.expressions.values.append(Expression("SCALE", "float32"))
            self.expressions.values.append(Expression("OFFSET", "float64"))
        if self.chance(6):
            self.options.append("debug=True")
            self.features.add("debug")

    # -- the end -------------------------------------------------------------------------------
    def variables(self) -> None:
        """Numbers, each of one dtype throughout."""
        body = self.body
        for variable in body.variables:
            body.emit(f"{variable.text} = {self.expressions.of_type(variable.dtype, 1)}")
            self.expressions.values += [variable] * 2

    def output(self, shapes: tuple[tuple[int, ...], ...]) -> None:
        """Variables, and for each an array that it ends in."""
        for number in range(self.rng.choice((1, 1, 2))):
            dtype = self.rng.choice(USUAL)
            self.body.variables.append(Expression(f"v{number}", dtype))
            self.parameters.append(Array(f"out{number}", dtype, shapes, "output"))

    def call_the_rest(self) -> None:
        """Call the device functions that nothing has called yet."""
        text = "\n".join([*self.lines, *self.body.lines])
        for helper in self.expressions.functions:
            if text.count(f"{helper.name}(") < 2:
                call_helper(self.body, helper)
        for function in self.body.barrier_functions:
            if text.count(f"{function.name}(") < 2:
                call_function(self.body, function)

    def store(self, index: str) -> None:
        """Every variable reaches its output, and so do the thread's slots of shared arrays."""
        for variable in self.body.variables:
            target = f"out{variable.text[1:]}[{index}]"
            self.body.emit(assignment(self.body, target, variable.text))
        for number, shared in enumerate(self.body.shared):
            self.body.emit(f"slots{number}[{index}] = {shared.own}")

    def finish(self) -> tuple[str, tuple[Array | Overlap | Scalar, ...]]:
        names = [p.name for p in self.parameters]
        definition = [f"@kd.kernel({', '.join(self.options)})", f"def kernel({', '.join(names)}):"]
        text = "\n".join([*self.lines, *definition, *self.body.lines]) + "\n"
        if "kd.load(" in text:
            self.features.add("hint for caches")
        text = plain_names(text) if self.chance(2) else renamed(text, self.rng)
        return text, tuple(self.parameters)


def sizes_of(name: str, ndim: int) -> tuple[str, ...]:
    if ndim == 1:
        return (f"{name}.size",)
    return tuple(f"{name}.shape[{axis}]" for axis in range(ndim))
