"""Device functions: those that compute, and those that wait at barriers."""

from __future__ import annotations

import random

from tests.fuzz.body import BarrierFunction
from tests.fuzz.expressions import USUAL, Expression, Expressions, Function
from tests.fuzz.typing import INTEGERS

__all__ = ["barrier_functions", "helpers", "operations", "safe_argument"]


def helpers(rng: random.Random, lines: list[str], places: tuple[str, ...]) -> list[Function]:
    """Write up to two device functions without barriers.

    `places` are expressions of the thread's place that they may ask for.
    """
    functions: list[Function] = []
    for number in range(rng.choice((0, 0, 0, 0, 1, 1))):
        dtypes = tuple(rng.choice(USUAL) for _ in range(rng.choice((1, 1, 2))))
        first, second = rng.choice(USUAL), rng.choice(USUAL)
        expressions = Expressions(rng, functions=list(functions))
        expressions.values += [Expression("a", first), Expression("b", second)]
        name = f"h{number}"
        lines += ["@kd.func", f"def {name}(p, q):"]
        # Parameters are converted first, as a function is compiled for any types.
        lines += [f"    a = {safe_argument(first, 'p')}", f"    b = {safe_argument(second, 'q')}"]
        if rng.randrange(3) == 0:
            lines.append(f"    lane = {rng.choice(places)}")
            expressions.values.append(Expression("lane", "int64"))
        if rng.randrange(2):
            lines += [f"    if {expressions.condition(1)}:"]
            lines += [f"        return {_result(expressions, dtypes)}"]
        if rng.randrange(3) == 0:
            lines += ["    for k in range(3):", f"        a = {expressions.of_type(first, 1)}"]
        lines += [f"    return {_result(expressions, dtypes)}", "", ""]
        functions.append(Function(name, 2, dtypes))
    return functions


def _result(expressions: Expressions, dtypes: tuple[str, ...]) -> str:
    return ", ".join(expressions.of_type(d, 2) for d in dtypes)


def safe_argument(dtype: str, name: str) -> str:
    """Convert a parameter of any dtype without leaving the range of an integer."""
    if dtype in INTEGERS:
        low = "0" if dtype.startswith("u") else "-100"
        return f"np.{dtype}({name}) if {name} >= {low} and {name} < 100 else np.{dtype}(5)"
    return f"np.{dtype}({name})"


#: What combines two values: some of them are not commutative, floats are rounded.
_OPERATIONS = (
    *("a * b", "a + b", "b", "a", "b if b > a else a", "a if a < b else b"),
    "a if a != a else b",
)


def operations(rng: random.Random, lines: list[str]) -> list[str]:
    """Write up to two functions that combine two values; return their names, and lambdas."""
    made = []
    for number in range(rng.choice((0, 1, 1, 2))):
        lines += [*rng.choice(([], ["@kd.func"])), f"def o{number}(a, b):"]
        lines += [f"    return {rng.choice(_OPERATIONS)}", "", ""]
        made.append(f"o{number}")
    return [*made, f"lambda a, b: {rng.choice(_OPERATIONS)}"]


#: Of device functions with barriers, the usual ones more often.
_KINDS = (
    *("exchange", "exchange", "exchange", "pair", "vote", "vote", "other_slot", "own_tile"),
    *("reduction", "uniform_branch", "nested", "barrier_free_tail"),
)


class _Maker:
    """Writes device functions with barriers, for blocks of so many threads."""

    def __init__(self, rng: random.Random, threads: int, lines: list[str]) -> None:
        self.rng = rng
        self.threads = threads
        self.lines = lines
        self.made: list[BarrierFunction] = []

    def add(self, parameters: tuple[str, ...], dtypes: tuple[str, ...], body: list[str]) -> None:
        name = f"g{len(self.made)}"
        names = {"t": "t", "uniform": "u"}
        words = [names.get(p, "s" if p.startswith("shared:") else "value") for p in parameters]
        self.lines += ["@kd.func", f"def {name}({', '.join(words)}):"]
        self.lines += [f"    {line}" for line in body] + ["", ""]
        is_slot = parameters == ("t",)
        self.made.append(BarrierFunction(name, parameters, dtypes, is_slot))

    def expression(self, names: dict[str, str], dtype: str, depth: int = 1) -> str:
        """An expression over named values."""
        values = [Expression(n, d) for n, d in names.items()]
        return Expressions(self.rng, values).of_type(dtype, depth)

    def condition(self, names: dict[str, str]) -> str:
        values = [Expression(n, d) for n, d in names.items()]
        return Expressions(self.rng, values).condition(1)

    def slot(self, thread: str = "t") -> str:
        """The slot of another thread, a different one for each."""
        shift = self.rng.randint(1, max(1, self.threads - 1))
        return self.rng.choice(
            (f"({thread} + {shift}) % {self.threads}", f"{self.threads - 1} - {thread}")
        )

    # -- kinds ---------------------------------------------------------------------------------
    def exchange(self, dtype: str) -> None:
        """Values that live across the barrier, and another thread's."""
        known = {"value": dtype, "t": "int64"}
        temporary = self.expression(known, dtype)
        body = [f"k = {temporary}", "s[t] = value", "kd.syncthreads()"]
        body += [f"r = s[{self.slot()}]", "kd.syncthreads()"]
        form = self.rng.randrange(4)
        if form == 0:
            body = ["s[t] = value", *body[2:], "return r"]
        elif form == 1:
            body += [f"if {self.condition({'k': dtype, 'r': dtype})}:", "    return k", "return r"]
        else:
            body += [f"return np.{dtype}(k + r)"]
        if self.rng.randrange(4) == 0:
            body = [f"value = {self.expression(known, dtype)}", *body]
        self.add((f"shared:{dtype}", "t", dtype), (dtype,), body)

    def pair(self, dtype: str) -> None:
        """Two values at once."""
        body = ["s[t] = value", "kd.syncthreads()", f"a, b = s[{self.slot()}], s[{self.slot()}]"]
        self.add(
            (f"shared:{dtype}", "t", dtype),
            (dtype, dtype),
            [*body, "kd.syncthreads()", "return a, b"],
        )

    def vote(self, dtype: str) -> None:
        """A vote in an expression."""
        kind = self.rng.choice(("count", "and", "or"))
        call = f"kd.syncthreads_{kind}({self.condition({'value': dtype})})"
        text = f"np.int64({self.expression({'value': dtype}, 'int64')} + {call})"
        if self.rng.randrange(2):
            body = [f"c = {call}", f"k = {self.expression({'value': dtype}, 'int64')}"]
            body += ["return np.int64(c * 10 + k)"]
        else:
            body = [f"return {text}"]
        self.add((dtype,), ("int64",), body)

    def other_slot(self) -> None:
        """The place of another thread."""
        self.add(("t",), ("int64",), ["kd.syncthreads()", f"return {self.slot()}"])

    def own_tile(self, dtype: str) -> None:
        """A shared array of its own, and the thread's place asked for anew."""
        body = [
            "t = kd.threadIdx.x + kd.blockDim.x * (kd.threadIdx.y + kd.blockDim.y * kd.threadIdx.z)"
        ]
        body += [f"s = kd.shared.array({self.threads}, np.{dtype})", "s[t] = value"]
        body += [
            "kd.syncthreads()",
            f"value = s[{self.slot()}]",
            "kd.syncthreads()",
            "return value",
        ]
        self.add((dtype,), (dtype,), body)

    def reduction(self, dtype: str) -> None:
        """A sum over the block, in a tree where the number of threads is a power of two."""
        body = ["s[t] = value", "kd.syncthreads()"]
        if self.threads & (self.threads - 1) == 0 and self.threads > 1:
            body += [f"w = {self.threads // 2}", "while w > 0:", "    if t < w:"]
            body += ["        s[t] += s[t + w]", "    kd.syncthreads()", "    w //= 2"]
        else:
            body += [f"for k in range({min(self.threads, 3)}):"]
            body += [f"    value += s[(t + k) % {self.threads}]", "    kd.syncthreads()"]
            body += ["    s[t] = value", "    kd.syncthreads()"]
        body += ["total = s[0]", "kd.syncthreads()", "return total"]
        self.add((f"shared:{dtype}", "t", dtype), (dtype,), body)

    def uniform_branch(self, dtype: str) -> None:
        """An early return of the whole block, and a loop around a barrier."""
        body = ["if u > 2:", f"    return {self.expression({'value': dtype}, dtype)}"]
        body += ["r = value", "for k in range(u):", "    s[t] = r", "    kd.syncthreads()"]
        body += [f"    r = s[{self.slot()}]", "    kd.syncthreads()", "return r"]
        self.add((f"shared:{dtype}", "t", "uniform", dtype), (dtype,), body)

    def nested(self, dtype: str) -> None:
        """A function that calls another one once, or more than ten times."""
        parameters = (f"shared:{dtype}", "t", dtype)
        inner = [f for f in self.made if f.parameters == parameters and f.dtypes == (dtype,)]
        if not inner:
            return self.exchange(dtype)
        name = self.rng.choice(inner).name
        count = self.rng.choice((1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 11))
        body = [f"k = {self.expression({'value': dtype, 't': 'int64'}, dtype)}", "r = value"]
        body += [f"r = {name}(s, t, r)"] * count
        if self.rng.randrange(3) == 0:
            body += [f"r = {name}(s, t, {name}(s, t, r))"]
        body += [f"return np.{dtype}(r + k)"]
        return self.add(parameters, (dtype,), body)

    def barrier_free_tail(self, dtype: str) -> None:
        """The thread's own slot, updated by what comes out of a barrier."""
        body = [
            "s[t] = value",
            f"s[t] += np.{dtype}(kd.syncthreads_count({self.condition({'value': dtype})}))",
        ]
        body += ["r = s[t]", "return r"]
        self.add((f"shared:{dtype}", "t", dtype), (dtype,), body)


def barrier_functions(
    rng: random.Random, threads: int, dtypes: list[str], lines: list[str], *, may_return: bool
) -> list[BarrierFunction]:
    """Write up to three device functions with barriers, for shared arrays of the dtypes.

    Where threads `may_return` before, what they would have written into a function's own shared
    array is not there.
    """
    maker = _Maker(rng, threads, lines)
    for _ in range(rng.choice((0, 1, 1, 1, 1, 2))):
        kind = rng.choice(_KINDS)
        if kind == "own_tile" and may_return:
            kind = "exchange"
        if kind == "other_slot":
            maker.other_slot()
        else:
            getattr(maker, kind)(rng.choice(dtypes))
    return maker.made
