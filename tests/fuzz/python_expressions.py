"""Expressions of programs with Python as their oracle, in integers and floats of 64 bits.

NumPy and Numba compute both in the same way. A narrow integer is widened at once, and a complex
number is not divided.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Writer"]

_NARROW = ("int8", "uint8", "int16", "uint16", "int32")
#: Forms of an int64; `u` and `v` are composed, `w` is not.
_FORMS = (
    # Python shifts its own integers by any number; those of the kernel have 64 bits.
    "np.int64(clamp({u}, -3))",
    "np.int64(clamp({u}, {number}, 9))",
    "np.int64(clamp({u}, 0, high=20))",
    "(first_at_least(x, {w}, {number}, {v}) + np.int64(0))",
    "np.int64(np.{narrow}({u} {op} {w}))",
    "({u} {shift} 3)",
    "({u} {shift} ({w} & 127))",
    "({u} {shift} 70)",
    "({u} {shift} -2)",
    "({u} {divide} 3)",
    "({u} {divide} -7)",
    "({u} {divide} (({w} & 7) + 1))",
    "({u} {divide} (({w} | 1) % 9 - 20))",
    "({u} if {test} else {v})",
    "r[{place}]['a']",
    "r[{place}]['in']['k']",
    "{least}({u}, {v})",
    "abs({u})",
    "parts({u}, {v}, {w})[0]",
    "parts({w}, {u})[1]",
    *(f"({{u}} {op} {{v}})" for op in "+-*&^" * 4),
)


class Writer:
    """Lines of a kernel, and expressions over what is in scope."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"python {seed}")
        self.lines: list[str] = []
        self.level = 1
        self.loops = 0
        #: int64 values, and functions of one.
        self.values = ["i", "a", "b"]
        self.functions: list[str] = []
        self.features: set[str] = set()
        self._names = 0

    # -- lines ---------------------------------------------------------------------------------
    def emit(self, *lines: str) -> None:
        """Add lines."""
        self.lines += ["    " * self.level + line for line in lines]

    def pick(self, *options: str) -> str:
        """Return one of some texts."""
        return self.rng.choice(options)

    def chance(self, one_in: int) -> bool:
        """Return true once in so many times."""
        return self.rng.randrange(one_in) == 0

    def fresh(self, prefix: str) -> str:
        """Return a name that is not used yet."""
        self._names += 1
        return f"{prefix}{self._names}"

    @contextmanager
    def under(self, header: str, *values: str) -> Iterator[None]:
        """Add a header and what is under it, where some more values are known."""
        self.emit(header)
        known, functions = len(self.values), len(self.functions)
        is_loop = header.startswith(("for", "while"))
        self.values += values
        self.level += 1
        self.loops += is_loop
        yield
        self.loops -= is_loop
        self.level -= 1
        del self.values[known:]
        del self.functions[functions:]

    # -- expressions ---------------------------------------------------------------------------
    def index(self, size: str, depth: int = 1) -> str:
        """Return an index in range, also of products and powers that overflow."""
        v = self.integer(depth)
        v = self.pick(v, f"({v} * {self.value()})", f"({v} ** {self.pick('2', '3')})")
        return self.pick(
            f"{v} % {size}",
            f"({v} & 127) % {size}",
            f"-1 - {v} % {size}",
            f"{v} % {size} - {size}",
            f"min(max({v}, 0), {size} - 1)",
            "-1",
        )

    def value(self) -> str:
        """Return a value, or an element of the thread's or of another."""
        element = self.pick("x[i]", "x[-1]", "x[-1 - i]", "x[i - x.size]", "x[0]")
        return self.pick(*self.values * 2, element)

    def integer(self, depth: int) -> str:
        """Return an int64."""
        if depth <= 0:
            return self.value()
        if self.functions and self.chance(10):
            return f"{self.rng.choice(self.functions)}({self.integer(depth - 1)})"
        form = self.rng.choice(_FORMS)
        names = {
            "u": self.integer(depth - 1),
            "v": self.integer(depth - 1),
            "w": self.value(),
            "test": self.condition(0) if "test" in form else "",
            "place": self.index("r.size", 0) if "place" in form else "",
            "narrow": self.rng.choice(_NARROW),
            "op": self.pick("+", "*"),
            "shift": self.pick("<<", ">>"),
            "divide": self.pick("//", "%"),
            "least": self.pick("min", "max"),
            "number": self.pick("3", "n"),
        }
        return form.format_map(names)

    def real(self, depth: int) -> str:
        """Return a float64."""
        if depth <= 0:
            place = f"r[{self.index('r.size', 0)}]['v'][{self.pick('0', '-1', 'i % 3')}]"
            return self.pick("c", "f[i]", "f[-1 - i]", "z.real", "z.imag", place)
        u, v, kind = self.real(depth - 1), self.real(0), self.rng.randrange(10)
        if kind == 0:
            return f"np.float64({self.integer(1)})"
        if kind == 1:
            return f"({u} if {self.condition(0)} else {v})"
        if kind == 2:
            return f"np.sqrt(abs({u}))"
        if kind == 3:
            return f"{self.pick('min', 'max')}({u}, {v})"
        return f"({u} {self.pick('+', '-', '*', '/')} {v})"

    def complex(self) -> str:
        """Return a complex128."""
        u = self.pick("z", "g[i]", "g[-1 - i]", f"g[{self.index('g.size')}]")
        return self.pick(
            *(f"{u} {op} z" for op in "+-*"),
            f"{u}.conjugate() * z",
            f"-{u}",
            f"{u} {self.pick('+', '-', '*')} {self.real(0)}",
            f"np.complex128(complex({self.real(1)}, {self.real(0)}))",
        )

    def condition(self, depth: int = 1) -> str:
        """Return a condition."""
        op, kind = self.pick("<", "<=", "==", "!=", ">"), self.rng.randrange(8)
        if kind == 0:
            return f"{self.real(0)} {self.pick('<', '>=')} {self.real(0)}"
        if kind == 1:
            return f"{self.integer(depth)} {op} {self.real(0)}"
        if kind == 2:
            return f"z {self.pick('==', '!=')} g[{self.index('g.size', 0)}]"
        if kind == 3:
            pair = f"{self.value()} < {self.value()}", f"{self.value()} % 3 == 1"
            return self.pick(" and ", " or ").join(pair)
        if kind == 4:
            return f"not {self.value()} > {self.value()}"
        return f"{self.integer(depth)} {op} {self.value()}"
