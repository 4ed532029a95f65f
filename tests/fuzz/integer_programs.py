"""Programs of integers of all types at random, each with an oracle in Python.

A program is written twice at the same time: as a kernel, and as a Python function of one thread in
which each operation names the type that docs/adr/0031 gives it. The generator knows the types of
what it writes, so that nothing is inferred for the oracle.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = ["IntegerProgram", "generate_integers"]

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_OPERATORS = ("+", "-", "*", "//", "%", "&", "|", "^", "<<", ">>")
_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
_LITERALS = (0, 1, 2, 3, 5, 7, 8, 10, 13, 31, 64, 100, 255, 256, 1000, 65535, 0x85EBCA6B)
_LARGE = (2**32 - 1, 2**32, 2**53 + 1, 2**62, 2**63 - 1)
#: Indentation of the statements of a kernel.
_BODY_DEPTH = 2
_HUGE = (2**63, 0xCBF29CE484222325, 2**64 - 1)


class Origin:
    """Where a number's type comes from."""

    SAID = "said"
    """A uint64 that the program says to be one."""
    NARROW = "narrow"
    """Smaller unsigned numbers, and the uint64 that they make."""
    TRUTH = "truth"
    """A bool, which has the type of the integers beside it."""
    LITERAL = "literal"
    """A Python int that is not negative."""
    OTHER = "other"
    """Anything else; a uint64 of this origin was mixed with signed numbers on the way."""


class Expression(NamedTuple):
    """An expression of a kernel, as the oracle computes it, and its type."""

    text: str
    oracle: str
    dtype: str
    origin: str = Origin.OTHER

    @property
    def is_unsigned(self) -> bool:
        return self.dtype.startswith("u")


@dataclass
class IntegerProgram:
    """A generated program.

    Attributes
    ----------
    seed : int
        What it is generated from.
    kernel, oracle : str
        Sources of ``kernel(a0, …, out0, …)``, and of ``thread(i, load, store, op)``.
    inputs, outputs : list of str
        Dtypes of the arrays.
    scalars : list of tuple of str and int
        Types and values of the arguments behind the inputs; of a Python int the type is ``"int"``.
    may_be_refused : bool
        Whether a variable that holds uint64 and signed numbers is shifted to the right.
    has_barrier : bool
        Whether it is launched with a block.
    """

    seed: int
    kernel: str
    oracle: str
    inputs: list[str]
    outputs: list[str]
    scalars: list[tuple[str, int]]
    may_be_refused: bool = False
    has_barrier: bool = False
    features: set[str] = field(default_factory=set)


def generate_integers(seed: int) -> IntegerProgram:
    """Return the program of a seed."""
    return _Writer(seed).write()


def _wide(dtype: str) -> bool:
    return dtype == "uint64"


def _joined(one: str, two: str) -> str:
    """Return the type that holds values of both."""
    if one == two:
        return one
    for a, b in ((one, two), (two, one)):
        if a == "bool":
            return b
    bits = {each: int(each.lstrip("uint")) for each in (one, two)}
    if one.startswith("u") == two.startswith("u"):
        return max(one, two, key=bits.__getitem__)
    unsigned, signed = (one, two) if one.startswith("u") else (two, one)
    if bits[signed] > bits[unsigned]:
        return signed
    return f"int{min(64, 2 * bits[unsigned])}"


class _Writer:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.inputs = [self.random.choice(INTEGERS) for _ in range(self.random.randint(1, 3))]
        if self.random.random() < 0.7:
            self.inputs[0] = "uint64"
        self.scalars: list[tuple[str, int]] = []
        for _ in range(self.random.randint(0, 2)):
            kind = self.random.choice((*INTEGERS, "int"))
            low, high = _limits("int64" if kind == "int" else kind)
            self.scalars.append((kind, self._number(low, high)))
        self.outputs: list[str] = []
        self.kernel: list[str] = []
        self.oracle: list[str] = []
        self.variables: dict[str, Expression] = {}
        #: Variables that hold literals and uint64 values alone, or smaller unsigned ones.
        self.said: set[str] = set()
        #: Variables that were assigned unsigned and signed values.
        self.mixed: set[str] = set()
        self.has_function = self.random.random() < 0.25
        self.has_barrier = self.random.random() < 0.25
        self.may_be_refused = False
        self.features: set[str] = set()
        self.depth = 1
        self.count = 0

    # ------------------------------------------------------------------------------- values

    def _number(self, low: int, high: int) -> int:
        kind = self.random.random()
        if kind < 0.4:
            return max(low, min(high, self.random.randint(-9, 20)))
        if kind < 0.7:
            edges = [low, high, low + 1, high - 1, 0, 1, high // 2, high // 2 + 1]
            return self.random.choice(edges)
        return self.random.randint(low, high)

    def literal(self) -> Expression:
        number = self.random.choice(_LITERALS if self.random.random() < 0.85 else _LARGE)
        return Expression(str(number), str(number), "int64", Origin.LITERAL)

    def leaf(self) -> Expression:
        kind = self.random.random()
        if kind < 0.45 and self.variables:
            return self.random.choice(list(self.variables.values()))
        if kind < 0.75:
            place = self.random.randrange(len(self.inputs))
            return self._element(place)
        if kind < 0.82 and self.scalars:
            place = self.random.randrange(len(self.scalars))
            dtype = self.scalars[place][0]
            dtype = "int64" if dtype == "int" else dtype
            return Expression(f"s{place}", f"s{place}", dtype, _origin(dtype))
        if kind < 0.86 and self.variables:
            number = -self.random.choice(_LITERALS[1:])
            return Expression(f"np.int64({number})", str(number), "int64")
        if kind < 0.88:
            number = self.random.choice(_HUGE)
            return Expression(f"np.uint64({number})", str(number), "uint64", Origin.SAID)
        if kind < 0.91:
            return Expression("i", "i", "int64")
        return self.truth() if kind < 0.94 else self.literal()

    def truth(self) -> Expression:
        """A comparison, as a number."""
        text, oracle = self.condition(0)
        self.features.add("bool as a number")
        return Expression(f"({text})", oracle, "bool", Origin.TRUTH)

    def _no_two_of_python(self, one: Expression, two: Expression) -> Expression:
        """Return the first of two values, or an element where neither is of an integer type."""
        is_typed = not {one.origin, two.origin} <= {Origin.LITERAL, Origin.TRUTH}
        return one if is_typed else self._element(0)

    def _element(self, place: int) -> Expression:
        dtype = self.inputs[place]
        return Expression(f"a{place}[i]", f"load({place}, i)", dtype, _origin(dtype))

    def expression(self, depth: int = 2) -> Expression:
        if depth == 0 or self.random.random() < 0.15:
            return self.leaf()
        kind = self.random.random()
        if kind < 0.62:
            return self.operation(self.expression(depth - 1), self.expression(depth - 1))
        if kind < 0.68:
            return self.unary(self.expression(depth - 1))
        if kind < 0.76:
            return self.converted(self.expression(depth - 1))
        if kind < 0.84:
            return self.extreme(self.expression(depth - 1), self.expression(depth - 1))
        if kind < 0.90:
            return self.choice(depth)
        if kind < 0.94 and self.has_function:
            value = self.expression(depth - 1)
            return self.called(value) if self.random.random() < 0.6 else self.limited(value)
        if kind < 0.97:
            return self.element_of_choice(self.expression(depth - 1), self.expression(depth - 1))
        return self.leaf()

    def operation(self, left: Expression, right: Expression) -> Expression:
        symbol = self.random.choice(_OPERATORS)
        if left.origin == right.origin == Origin.LITERAL:  # Python computes it
            right = self._element(0)
        if self.random.random() < 0.3:
            right = self.literal()
            if left.origin == Origin.LITERAL:
                left = self._element(0)
        if symbol in ("<<", ">>"):
            if self.random.random() < 0.8:
                count = self.random.randint(0, 66)
                right = Expression(str(count), str(count), "int64", Origin.LITERAL)
            if left.origin == Origin.LITERAL:
                left = self._element(0)
            return self._operated(symbol, left, right)
        return self._operated(symbol, left, right)

    def _operated(self, symbol: str, left: Expression, right: Expression) -> Expression:
        if symbol in ("&", "|", "^") and left.origin == right.origin == Origin.TRUTH:
            oracle = f"({left.oracle} {symbol} {right.oracle})"
            return Expression(f"({left.text} {symbol} {right.text})", oracle, "bool", Origin.TRUTH)
        if symbol in ("<<", ">>"):
            dtype = "uint64" if left.is_unsigned else "int64"
            origin = Origin.OTHER if left.origin == Origin.TRUTH else left.origin
            if symbol == ">>" and left.text in self.mixed:
                self.may_be_refused = True
        else:
            dtype, origin = _arithmetic(left, right)
        self.features.add(f"{symbol} of {left.origin} {right.origin}")
        text = f"({left.text} {symbol} {right.text})"
        return Expression(
            text, f"op({symbol!r}, {dtype!r}, {left.oracle}, {right.oracle})", dtype, origin
        )

    def unary(self, value: Expression) -> Expression:
        symbol = self.random.choice(("-", "~", "abs"))
        if value.origin == Origin.TRUTH:
            oracle = f"op('-x', 'int64', {value.oracle}, 0)"
            return Expression(f"(-{value.text})", oracle, "int64")
        if value.origin == Origin.LITERAL:
            value = self._element(0)
        if symbol == "abs":
            oracle = f"op('abs', {value.dtype!r}, {value.oracle}, 0)"
            return Expression(f"abs({value.text})", oracle, value.dtype, value.origin)
        # Computed in the operand's own width, and then an integer of 64 bits.
        oracle = f"op({symbol + 'x'!r}, {value.dtype!r}, {value.oracle}, 0)"
        dtype = "uint64" if value.is_unsigned else "int64"
        return Expression(f"({symbol}{value.text})", oracle, dtype, value.origin)

    def converted(self, value: Expression) -> Expression:
        dtype = self.random.choice(INTEGERS)
        oracle = f"op('to', {dtype!r}, {value.oracle}, 0)"
        return Expression(f"np.{dtype}({value.text})", oracle, dtype, _origin(dtype))

    def extreme(self, one: Expression, two: Expression) -> Expression:
        name = self.random.choice(("min", "max"))
        one = self._no_two_of_python(one, two)
        dtype, origin = _chosen(one, two)
        is_mixed = "uint64" in (one.dtype, two.dtype) and dtype == "int64"
        if is_mixed and name == "max":
            dtype = "uint64"
        if dtype == "uint64" and name == "max" and Origin.SAID in (one.origin, two.origin):
            origin = Origin.SAID
        oracle = f"op({name!r}, {dtype!r}, {one.oracle}, {two.oracle})"
        return Expression(f"{name}({one.text}, {two.text})", oracle, dtype, origin)

    def choice(self, depth: int) -> Expression:
        test, oracle_test = self.condition(depth - 1)
        one, two = self.expression(depth - 1), self.expression(depth - 1)
        one = self._no_two_of_python(one, two)
        dtype, origin = _chosen(one, two)
        text = f"({one.text} if {test} else {two.text})"
        oracle = f"op('as', {dtype!r}, {one.oracle} if {oracle_test} else {two.oracle}, 0)"
        return Expression(text, oracle, dtype, origin)

    def condition(self, depth: int = 1) -> tuple[str, str]:
        symbol = self.random.choice(_COMPARISONS)
        one, two = self.expression(depth), self.expression(depth)
        if self.random.random() < 0.4:
            two = self.literal()
        if one.origin == two.origin == Origin.LITERAL:
            one = self._element(0)
        return f"{one.text} {symbol} {two.text}", f"({one.oracle} {symbol} {two.oracle})"

    def called(self, value: Expression) -> Expression:
        """A call of a function; its literals, and those given to it, have the argument's type."""
        if value.origin == Origin.LITERAL:
            value = self._element(0)
        x = Expression("x", value.oracle, value.dtype, value.origin)
        by = Expression("3", "3", "int64", Origin.LITERAL)
        seven = Expression("7", "7", "int64", Origin.LITERAL)
        body = self._operated("+", self._operated("//", x, by), seven)
        self.features.add("device function")
        return Expression(f"helper({value.text}, 3)", body.oracle, body.dtype, body.origin)

    def limited(self, value: Expression) -> Expression:
        """A call of a device function that returns its argument or a literal."""
        if value.origin == Origin.LITERAL:
            value = self._element(0)
        dtype, origin = _chosen(value, Expression("7", "7", "int64", Origin.LITERAL))
        self.features.add("two returns")
        oracle = f"op('as', {dtype!r}, {value.oracle} if {value.oracle} > 7 else 7, 0)"
        return Expression(f"limited({value.text})", oracle, dtype, origin)

    def element_of_choice(self, one: Expression, two: Expression) -> Expression:
        """An element of one of two tuples, which have the types of both."""
        one = self._no_two_of_python(one, two)
        test, oracle_test = self.condition(0)
        dtype, origin = _chosen(one, two)
        self.features.add("tuples")
        oracle = f"op('as', {dtype!r}, {one.oracle} if {oracle_test} else {two.oracle}, 0)"
        pairs = f"(({one.text}, 3) if {test} else ({two.text}, 5))"
        return Expression(f"{pairs}[0]", oracle, dtype, origin)

    # --------------------------------------------------------------------------- statements

    def line(self, kernel: str, oracle: str | None = None) -> None:
        self.kernel.append("    " * self.depth + kernel)
        self.oracle.append("    " * self.depth + (kernel if oracle is None else oracle))

    def assign(self, name: str, value: Expression, how: str = "=") -> None:
        """Write an assignment, and learn the variable's type."""
        self.line(f"{name} {how} {value.text}")
        self.oracle[-1] = "    " * self.depth + f"{name} = {value.oracle}"

    def declare(self) -> None:
        """Begin a variable: what it may hold is decided now."""
        name = f"v{self.count}"
        self.count += 1
        kind = self.random.random()
        if kind < 0.35:  # literals and uint64
            self.said.add(name)
            value = self.literal() if self.random.random() < 0.5 else self._said_value()
            # Literals alone are int64; a uint64 makes it one.
            following = self._said_value()
            self.assign(name, value)
            self.assign(name, following)
            self.variables[name] = Expression(name, name, "uint64", Origin.SAID)
            return
        value = self.expression()
        if value.origin in (Origin.LITERAL, Origin.TRUTH):
            value = Expression(f"np.int64({value.text})", value.oracle, "int64")
        if value.origin == Origin.SAID:
            self.said.add(name)
        self.assign(name, value)
        self.variables[name] = value._replace(text=name, oracle=name)

    def _said_value(self) -> Expression:
        """A value that is a uint64 because the program says so."""
        for _ in range(20):
            value = self.expression()
            if value.origin == Origin.SAID:
                return value
        number = self.expression(1)
        return Expression(
            f"np.uint64({number.text})",
            f"op('to', 'uint64', {number.oracle}, 0)",
            "uint64",
            Origin.SAID,
        )

    def value_for(self, name: str) -> Expression:
        """A value that a variable may hold, by what it is."""
        now = self.variables[name]
        if name in self.said:
            if self.random.random() >= 0.1:
                return self._said_value()
            truth = self.truth()
            if self.depth > _BODY_DEPTH:  # a uint64 where the branch ends
                return truth
            oracle = f"op('to', 'uint64', {truth.oracle}, 0)"
            return Expression(f"np.uint64({truth.text})", oracle, "uint64", Origin.SAID)
        for _ in range(10):
            value = self.expression()
            if value.origin in (Origin.LITERAL, Origin.TRUTH):
                continue
            if now.origin == Origin.NARROW and value.origin == Origin.NARROW:
                return value
            if now.origin == Origin.OTHER and value.origin == Origin.OTHER:
                return value
        target = now.dtype
        value = self.expression(1)
        oracle = f"op('to', {target!r}, {value.oracle}, 0)"
        origin = now.origin if now.origin == Origin.OTHER else _origin(target)
        return Expression(f"np.{target}({value.text})", oracle, target, origin)

    def update(self, name: str, value: Expression | None = None) -> None:
        """Assign to a variable, now and then in place."""
        now = self.variables[name]
        symbol = self.random.choice(_OPERATORS[:-1])
        if value is None and self.random.random() < 0.4:
            operand = self.literal() if self.random.random() < 0.4 else self.leaf()
            result = self._operated(symbol, now, operand)
            if self._may_hold(name, result):
                self.line(f"{name} {symbol}= {operand.text}")
                self.oracle[-1] = "    " * self.depth + f"{name} = {result.oracle}"
                self._hold(name, result)
                self.features.add("in place")
                return
        value = value or self.value_for(name)
        self.assign(name, value)
        self._hold(name, value)

    def _may_hold(self, name: str, value: Expression) -> bool:
        if name in self.said:
            return value.origin == Origin.SAID
        return value.origin == self.variables[name].origin

    def _hold(self, name: str, value: Expression) -> None:
        now = self.variables[name]
        if name in self.said:
            is_truth = value.origin == Origin.TRUTH
            kind = ("bool", Origin.TRUTH) if is_truth else ("uint64", Origin.SAID)
            self.variables[name] = Expression(name, name, *kind)
            return
        origin = now.origin if now.origin == Origin.OTHER else value.origin
        self.variables[name] = now._replace(dtype=value.dtype, origin=origin)

    def mix(self) -> None:
        """A variable that holds a uint64 in one branch and a signed number in the other."""
        name = f"m{self.count}"
        self.count += 1
        test, oracle_test = self.condition()
        wide, signed = self._said_value(), None
        while (
            signed is None or signed.is_unsigned or signed.origin in (Origin.LITERAL, Origin.TRUTH)
        ):
            signed = self.expression(1)
        self.assign(name, wide)
        self.line(f"if {test}:", f"if {oracle_test}:")
        self.depth += 1
        self.assign(name, signed)
        self.depth -= 1
        self.oracle.append("    " * self.depth + f"{name} = op('as', 'int64', {name}, 0)")
        self.variables[name] = Expression(name, name, "int64")
        self.mixed.add(name)
        self.features.add("mixed variable")

    def branch(self) -> None:
        test, oracle_test = self.condition()
        self.line(f"if {test}:", f"if {oracle_test}:")
        before = dict(self.variables)
        self.depth += 1
        for _ in range(self.random.randint(1, 2)):
            self.update(self.random.choice(list(before)))
        self.depth -= 1
        self._meet(before)
        self.features.add("branch")

    def _meet(self, before: dict[str, Expression]) -> None:
        """Join the types of variables with those on the other way."""
        for name, was in before.items():
            now = self.variables[name]
            if now.dtype == was.dtype:
                continue
            dtype = _joined(now.dtype, was.dtype)
            self.oracle.append("    " * self.depth + f"{name} = op('as', {dtype!r}, {name}, 0)")
            if dtype == "int64" and "uint64" in (now.dtype, was.dtype):
                self.mixed.add(name)
            self.variables[name] = was if name in self.said else now._replace(dtype=dtype)

    def loop(self) -> None:
        """A loop whose variables have one type from its beginning on."""
        chosen = self.random.sample(list(self.variables), min(2, len(self.variables)))
        for name in chosen:
            now = self.variables[name]
            # Of values of several types a loop's variable has the widest, which is begun with.
            wide = "uint64" if now.is_unsigned else "int64"
            if now.dtype != wide:
                self.line(f"{name} = np.{wide}({name})", f"{name} = op('to', {wide!r}, {name}, 0)")
                if wide == "uint64":
                    self.said.add(name)
                self.variables[name] = Expression(name, name, wide, _origin(wide))
        self.line(f"for k{self.count} in range({self.random.randint(1, 4)}):")
        self.count += 1
        self.depth += 1
        written = len(self.kernel)
        for name in chosen:
            self._loop_update(name)
        assert len(self.kernel) > written
        self.depth -= 1
        self.features.add("loop")

    def _loop_update(self, name: str) -> None:
        now = self.variables[name]
        for _ in range(10):
            symbol = self.random.choice(_OPERATORS)
            operand = self.literal() if self.random.random() < 0.5 else self.leaf()
            value = self._operated(symbol, now, operand)
            if value.dtype == now.dtype and value.origin == now.origin:
                self.assign(name, value)
                return
        oracle = f"op('to', {now.dtype!r}, {now.oracle}, 0)"
        self.assign(name, Expression(f"np.{now.dtype}({name})", oracle, now.dtype, now.origin))

    def output(self) -> None:
        """Store a value: in an element of some type, as a float, or compared."""
        value = self.expression()
        kind = self.random.random()
        place = len(self.outputs)
        if kind < 0.2:
            text, oracle = self.condition(2)
            self.outputs.append("bool")
            self.line(f"o{place}[i] = {text}", f"store({place}, i, {oracle})")
            return
        if kind < 0.35:
            self.outputs.append("float64")
            # A kernel has no float of a bool.
            text = value.text if value.dtype != "bool" else f"1 if {value.text} else 0"
            self.line(f"o{place}[i] = float({text})", f"store({place}, i, float({value.oracle}))")
            return
        self.outputs.append(self.random.choice(INTEGERS))
        self.line(f"o{place}[i] = {value.text}", f"store({place}, i, {value.oracle})")

    def write(self) -> IntegerProgram:
        self.depth = _BODY_DEPTH
        for _ in range(self.random.randint(1, 3)):
            self.declare()
        for _ in range(self.random.randint(1, 5)):
            kind = self.random.random()
            if kind < 0.35:
                self.update(self.random.choice(list(self.variables)))
            elif kind < 0.55:
                self.branch()
            elif kind < 0.75:
                self.loop()
            elif kind < 0.85:
                self.mix()
            else:
                self.declare()
            if self.has_barrier and self.random.random() < 0.5:
                self.kernel.append("        kd.syncthreads()")
        for _ in range(self.random.randint(1, 3)):
            self.output()
        parameters = [
            *(f"a{n}" for n in range(len(self.inputs))),
            *(f"s{n}" for n in range(len(self.scalars))),
            *(f"o{n}" for n in range(len(self.outputs))),
        ]
        guard = "if True:" if self.has_barrier else "if i < a0.size:"
        lines = ["import numpy as np", "import kerneldsl as kd", ""]
        if self.has_function:
            lines += ["@kd.func", "def helper(x, by, more=7):", "    return x // by + more", ""]
            lines += ["@kd.func", "def limited(x):", "    if x > 7:", "        return x"]
            lines += ["    return 7", ""]
        lines += [
            "@kd.kernel",
            f"def kernel({', '.join(parameters)}):",
            "    i = kd.grid(1)",
            f"    {guard}",
            *self.kernel,
        ]
        scalars = [f"    s{n} = {value}" for n, (_, value) in enumerate(self.scalars)]
        oracle = ["def thread(i, load, store, op):", *scalars, "    if True:", *self.oracle]
        return IntegerProgram(
            self.seed,
            "\n".join(lines) + "\n",
            "\n".join(oracle) + "\n",
            self.inputs,
            self.outputs,
            self.scalars,
            self.may_be_refused,
            self.has_barrier,
            self.features,
        )


def _limits(dtype: str) -> tuple[int, int]:
    bits = int(dtype.lstrip("uint"))
    return (0, 2**bits - 1) if dtype.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _origin(dtype: str) -> str:
    if dtype == "uint64":
        return Origin.SAID
    return Origin.NARROW if dtype.startswith("u") else Origin.OTHER


def _arithmetic(left: Expression, right: Expression) -> tuple[str, str]:
    """Return the type that two numbers are computed in."""
    origins = {left.origin, right.origin}
    if Origin.SAID in origins and Origin.OTHER not in origins:
        return "uint64", Origin.SAID
    if Origin.TRUTH in origins and "uint64" in (left.dtype, right.dtype):
        return "uint64", Origin.OTHER
    if left.is_unsigned and right.is_unsigned:
        return "uint64", Origin.OTHER if Origin.OTHER in origins else Origin.NARROW
    return "int64", Origin.OTHER


def _chosen(one: Expression, two: Expression) -> tuple[str, str]:
    """Return the type of a value that is one of two."""
    origins = {one.origin, two.origin}
    if origins == {Origin.TRUTH, Origin.LITERAL}:
        return "int64", Origin.LITERAL
    if Origin.SAID in origins and Origin.OTHER not in origins:
        return "uint64", Origin.SAID
    dtype = _joined(one.dtype, two.dtype)
    is_narrow = Origin.NARROW in origins and origins <= {Origin.NARROW, Origin.TRUTH}
    return dtype, Origin.NARROW if is_narrow else Origin.OTHER
