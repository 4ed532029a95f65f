"""Random kernels with indices that may be negative: none is marked as not negative that is.

Conditions, loops and arithmetic around an access are random. A comparison of floats, which no
analysis reads, keeps each access inside of its array. Results are compared with Python's.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.support.extent import examples
from tests.support.python_kernels import simulate
from tests.support.regions.reading import after_passes, as_written, specialized
from tests.support.regions.running import run
from tests.support.regions.watching import watch_of
from tests.support.seeds import fresh_seed
from tests.support.simt import Launch
from tests.support.source import exec_source
from tests.support.verifier import verify

_HEAD = """\
import numpy as np
import kerneldsl as kd

@kd.kernel
def kernel(x, m, k, out):
    i = kd.grid(1)
    t = kd.threadIdx.x
    n = x.size
    found = i
    spent = 0
"""
_BLOCK = 3
#: Turns of all loops, at most.
_TURNS = 60


class _Writer:
    """Writes one kernel."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.names = ["i", "t", "n", "m", "k"]
        self.lines: list[str] = []
        self.count = 0

    def text(self) -> str:
        for _ in range(4):
            self.statement(1, in_loop=False)
        self.access(1)
        return _HEAD + "\n".join(self.lines) + "\n    out[i] = found\n"

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def expression(self, depth: int = 2) -> str:
        choose = self.random
        if depth == 0 or choose.random() < 0.3:
            return choose.choice([*self.names, *self.names, *"0123", "-1", "7"])
        one, two = self.expression(depth - 1), self.expression(depth - 1)
        return choose.choice(
            [
                *(f"({one} {symbol} {two})" for symbol in ("+", "-", "+", "-", "*")),
                *(f"({one} {symbol} {choose.choice((1, 2, 3, 5, -2))})" for symbol in ("//", "%")),
                *(f"({one} {symbol} n)" for symbol in ("//", "%")),
                f"({one} >> {choose.randrange(3)})",
                f"({one} {choose.choice('&|^')} {two})",
                *(f"{name}({one}, {two})" for name in ("min", "max")),
                f"abs({one})",
                f"(-{one})",
                f"({one} if {self.condition(0)} else {two})",
            ]
        )

    def condition(self, depth: int = 1) -> str:
        if depth and self.random.random() < 0.35:
            one, two = self.condition(depth - 1), self.condition(depth - 1)
            return self.random.choice([f"({one} and {two})", f"({one} or {two})", f"(not {one})"])
        symbols = ("<", "<=", ">", ">=", "==", "!=")
        symbol = self.random.choice(symbols)
        one, two = self.expression(depth), self.expression(depth)
        if self.random.random() < 0.25:
            return f"(0 <= {one} < {two})"
        return f"({one} {symbol} {two})"

    def assignable(self) -> str:
        if self.count and self.random.random() < 0.5:
            return f"v{self.random.randrange(self.count)}"
        self.count += 1
        return f"v{self.count - 1}"

    def access(self, depth: int) -> None:
        index = self.expression()
        self.line(depth, f"at = {index}")
        self.line(depth, "place = np.float64(at)")
        self.line(depth, "if place < np.float64(n) and place >= -np.float64(n):")
        name = self.random.choice(("at", index))
        self.line(depth + 1, f"found = found * 3 + x[{name}]")

    def block(self, depth: int, *, in_loop: bool) -> None:
        names = list(self.names)
        for _ in range(self.random.randint(1, 3)):
            self.statement(depth, in_loop=in_loop)
        self.names = names

    def statement(self, depth: int, *, in_loop: bool) -> None:
        kinds = ["assign", "assign", "access", "access"]
        kinds += ["if", "if", "for", "while"] if depth < 4 else []
        kinds += ["leave"] if in_loop else []
        match self.random.choice(kinds):
            case "assign":
                value = self.expression()
                name = self.assignable()
                clamp = f"min(max({value}, -50), 50)"
                self.line(depth, f"{name} = {clamp}")
                if name not in self.names:
                    self.names.append(name)
            case "access":
                self.access(depth)
            case "if":
                self.line(depth, f"if {self.condition()}:")
                self.block(depth + 1, in_loop=in_loop)
                if self.random.random() < 0.4:
                    self.line(depth, "else:")
                    self.block(depth + 1, in_loop=in_loop)
            case "for":
                step = self.random.choice((1, 1, 2, -1, -3))
                start, stop = self.expression(1), self.expression(1)
                name = f"j{depth}"
                bounds = f"{start}, {stop}" + (f", {step}" if step != 1 else "")
                self.line(depth, f"for {name} in range({bounds}):")
                self.turn(depth + 1)
                self.names.append(name)
                self.block(depth + 1, in_loop=True)
                self.names.remove(name)
            case "while":
                self.line(depth, f"while {self.condition()}:")
                self.turn(depth + 1)
                self.block(depth + 1, in_loop=True)
            case "leave":
                self.line(depth, f"if {self.condition(0)}:")
                self.line(depth + 1, self.random.choice(("break", "continue")))

    def turn(self, depth: int) -> None:
        self.line(depth, "spent += 1")
        self.line(depth, f"if spent > {_TURNS}:")
        self.line(depth + 1, "break")


@pytest.mark.parametrize("part", range(examples(10, 1)))
def test_marks_of_random_kernels(part: int) -> None:
    first = fresh_seed() + part * 1000
    for seed in range(first, first + examples(40, 12)):
        text = _Writer(seed).text()
        try:
            _check(text, seed)
        except Exception as error:
            error.add_note(f"seed {seed}:\n{text}")
            raise


def _check(text: str, seed: int) -> None:
    kernel = exec_source(text, "marks")["kernel"]
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(3):
        x = rng.integers(-9, 9, rng.integers(1, 7))
        m, k = (int(each) for each in rng.integers(-4, 6, 2))
        expected = np.zeros(2 * _BLOCK, np.int64)
        simulate(kernel, (2,), (_BLOCK,), (x, m, k, expected))
        found.append((x, m, k, expected))
    spec = specialized(kernel, (x, m, k, expected), block=(_BLOCK,))
    written = as_written(spec)
    after, intervals = after_passes(spec)
    for function, watch in ((written, None), (after, watch_of(after, intervals))):
        verify(function)
        for x, m, k, expected in found:
            out = np.zeros_like(expected)
            run(function, Launch(2, _BLOCK), (x, m, k, out), watch)
            assert (out == expected).all()
