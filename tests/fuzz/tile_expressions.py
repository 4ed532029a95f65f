"""Random expressions of tiles: what their elements are computed from, with the dtypes they have."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.fuzz.expressions import USUAL, Expression
from tests.fuzz.tile_names import OF_BLOCK, Shape, TileFunction
from tests.fuzz.tile_sources import TileSources
from tests.fuzz.typing import FLOATS, INTEGERS, common_type, result_type

__all__ = ["Tiles"]

#: Comparisons of the elements of two tiles.
_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")


@dataclass
class Tiles(TileSources):
    """Makes expressions of tiles over what is in scope, and of further functions.

    Parameters
    ----------
    maps : list of Expression
        Device functions of two numbers, with the dtype that they give.
    functions : list of TileFunction
        Device functions of tiles.
    whole : tuple of str
        Whole numbers that are the same in all threads of a block, and not below 0.
    """

    #: Device function of an element, its index and a whole number, by the axes of the tile.
    stored: dict[int, str] = field(default_factory=dict)
    maps: list[Expression] = field(default_factory=list)
    functions: list[TileFunction] = field(default_factory=list)
    whole: tuple[str, ...] = ("n", "m", "kd.blockIdx.x")

    # -- tiles ---------------------------------------------------------------------------------
    def of_shape(self, shape: Shape, depth: int) -> Expression:
        """Return an expression of a tile of numbers."""
        if depth <= 0:
            return self.leaf(shape)
        make = self.rng.choice(
            (
                *(self._arithmetic, self._arithmetic, self._arithmetic, self._quotient),
                *(self._integers, self._unary, self._unary, self._extremum, self._square_root),
                *(self._conversion, self._conversion, self._map, self._map, self._intrinsic),
                *(self._repeated, self._selected, self._function, self._scanned),
                *(self._ordered, self._ordered, self._taken, self._taken),
            )
        )
        return make(shape, depth)

    def of_type(self, shape: Shape, dtype: str, depth: int) -> str:
        """Return the text of an expression, converted to `dtype` where that is defined."""
        for _ in range(6):
            found = self.of_shape(shape, depth)
            if found.dtype == dtype:
                return found.text
            if found.dtype in INTEGERS or dtype in FLOATS:
                return self.converted(found, dtype).text
        return self.converted(self.created(shape, "int64"), dtype).text

    def leaf(self, shape: Shape) -> Expression:
        """Return a variable, or a tile that is made or loaded."""
        names = [n for n in self.names if n.shape == shape and n.dtype != "bool"]
        if names and not self.chance(3):
            name = self.rng.choice(names)
            return Expression(name.text, name.dtype)
        if shape == OF_BLOCK:
            return Expression("kd.tile.of(np.float64(t))", "float64")
        if self.chance(3):
            return self.created(shape, self.rng.choice(USUAL))
        return self.loaded(shape)

    # -- elements ------------------------------------------------------------------------------
    def number(self) -> Expression:
        """Return a number that is the same in all threads."""
        constants = (
            *(Expression("2", "int64"), Expression("-3", "int64"), Expression("1.5", "float64")),
            *(Expression("np.float32(0.5)", "float32"), Expression("kd.int32(7)", "int32")),
        )
        return self.rng.choice((*constants, *self.numbers, *self.numbers))

    def _other(self, shape: Shape, depth: int) -> Expression:
        """A second operand: a tile, or a number."""
        return self.number() if self.chance(3) else self.of_shape(shape, depth)

    def _arithmetic(self, shape: Shape, depth: int) -> Expression:
        left, right = self.of_shape(shape, depth - 1), self._other(shape, 0)
        if self.chance(3):
            left, right = right, left
        op = self.rng.choice("+-*")
        return Expression(
            f"({left.text} {op} {right.text})", result_type(op, left.dtype, right.dtype)
        )

    def _quotient(self, shape: Shape, depth: int) -> Expression:
        left, right = self.of_shape(shape, depth - 1), self._other(shape, 0)
        return Expression(
            f"({left.text} / {right.text})", result_type("/", left.dtype, right.dtype)
        )

    def _integer(self, shape: Shape, depth: int) -> Expression:
        return Expression(self.of_type(shape, "int64", depth), "int64")

    def _integers(self, shape: Shape, depth: int) -> Expression:
        """Divisions by what is no zero, shifts, bits."""
        text = self._integer(shape, depth - 1).text
        op = self.rng.choice(("//", "%", "<<", ">>", "&", "|", "^"))
        right = self.rng.choice(("3", "2", f"({self.rng.choice(self.whole)} + 1)"))
        if op in "&|^":
            right = self._integer(shape, 0).text
        return Expression(f"({text} {op} {right})", "int64")

    def _unary(self, shape: Shape, depth: int) -> Expression:
        value = self.of_shape(shape, depth - 1)
        if value.is_integer and self.chance(3):
            return Expression(f"(~{value.text})", result_type("invert", value.dtype))
        if self.chance(2):
            return Expression(f"abs({value.text})", result_type("abs", value.dtype))
        return Expression(f"(-{value.text})", result_type("neg", value.dtype))

    def _extremum(self, shape: Shape, depth: int) -> Expression:
        dtype = self.rng.choice(INTEGERS)
        left = self.of_type(shape, dtype, depth - 1)
        right = self.of_type(shape, dtype, 0) if self.chance(2) else f"np.{dtype}(5)"
        return Expression(f"{self.rng.choice(('min', 'max'))}({left}, {right})", dtype)

    def _square_root(self, shape: Shape, depth: int) -> Expression:
        dtype = self.rng.choice(FLOATS)
        value = self.of_type(shape, dtype, depth - 1)
        return Expression(f"math.sqrt(abs({value}))", dtype)

    def converted(self, value: Expression, dtype: str) -> Expression:
        """Return a tile of another dtype; a float does not become an integer."""
        if value.dtype == dtype:
            return value
        assert value.dtype in INTEGERS or dtype in FLOATS
        return Expression(
            self.rng.choice(
                (
                    f"{self.rng.choice(('np', 'kd'))}.{dtype}({value.text})",
                    f"{value.text}.astype({self.rng.choice(('np', 'kd'))}.{dtype})",
                    f"kd.tile.astype({value.text}, kd.{dtype})",
                )
            ),
            dtype,
        )

    def _conversion(self, shape: Shape, depth: int) -> Expression:
        value = self.of_shape(shape, depth - 1)
        return self.converted(value, self.rng.choice(USUAL if value.is_integer else FLOATS))

    def _map(self, shape: Shape, depth: int) -> Expression:
        """A device function, called for each element, with a number or those of another tile."""
        if not self.maps:
            return self._arithmetic(shape, depth)
        function = self.rng.choice(self.maps)
        value, other = self.of_shape(shape, depth - 1), self._other(shape, 0)
        return Expression(f"{value.text}.map({function.text}, {other.text})", function.dtype)

    def _intrinsic(self, shape: Shape, depth: int) -> Expression:
        """What an intrinsic computes from numbers, element by element."""
        name = self.rng.choice(("popc", "clz", "brev", "fma", "mulhi", "ffs"))
        if name == "fma":
            dtype = self.rng.choice(FLOATS)
            values = [self.of_type(shape, dtype, k) for k in (depth - 1, 0)]
            return Expression(f"kd.fma({', '.join(values)}, np.{dtype}(0.25))", dtype)
        dtype = self.rng.choice(("int32", "uint32", "int64", "uint64"))
        args = [self.of_type(shape, dtype, depth - 1)]
        result = {"ffs": "uint32", "brev": f"uint{dtype[-2:]}"}.get(name, dtype)
        if name == "mulhi":
            args.append(self.of_type(shape, dtype, 0))
        return Expression(f"kd.{name}({', '.join(args)})", result)

    def _repeated(self, shape: Shape, depth: int) -> Expression:
        """A tile that is repeated along an axis, of which its extent is 1."""
        fitting = [n for n in self.names if len(shape) == 2 and _is_line(n.shape, shape)]
        fitting = [n for n in fitting if n.dtype != "bool"]
        if not fitting:
            return self._arithmetic(shape, depth)
        line, value = self.rng.choice(fitting), self.of_shape(shape, depth - 1)
        op = self.rng.choice("+-*")
        return Expression(
            f"({value.text} {op} {line.text})", result_type(op, value.dtype, line.dtype)
        )

    def _selected(self, shape: Shape, depth: int) -> Expression:
        """One of two tiles, by a condition of the block, or elements by one of each element."""
        names = [n for n in self.names if n.shape == shape and n.dtype != "bool"]
        if len(names) > 1 and self.chance(2):
            yes, no = self.rng.sample(names, 2)
            test = f"{self.rng.choice(self.whole)} > {self.rng.randrange(3)}"
            return Expression(
                f"({yes.text} if {test} else {no.text})", common_type(yes.dtype, no.dtype)
            )
        dtype = self.rng.choice((*FLOATS, "int64"))
        yes, no = (self.of_type(shape, dtype, k) for k in (depth - 1, 0))
        return Expression(f"kd.selp({self.truth(shape, 0)}, {yes}, {no})", dtype)

    def _scanned(self, shape: Shape, depth: int) -> Expression:
        """Sums up to each element, or before it, along one of two axes."""
        value = self.of_shape(shape, depth - 1)
        given = [] if len(shape) == 1 else [self.rng.choice(("axis=0", "axis=1", "0", "-1"))]
        if self.chance(3):
            given.append(f"exclusive={self.rng.choice((True, False))}")
        return Expression(
            f"{value.text}.cumsum({', '.join(given)})", reduced_type("sum", value.dtype)
        )

    def _ordered(self, shape: Shape, depth: int) -> Expression:
        """Rows in rising order, or the places of their elements in it."""
        value = self.of_shape(shape, depth - 1)
        if self.chance(2):
            return Expression(f"{value.text}.sort()", value.dtype)
        self.features.add("places of a sorted tile")
        text = self.rng.choice((f"{value.text}.argsort()", f"kd.tile.argsort({value.text})"))
        return Expression(text, "int64")

    def _taken(self, shape: Shape, depth: int) -> Expression:
        """Elements at places of a tile of as many rows, which may be beyond its ends."""
        self.features.add("elements taken at places")
        from_one = [each for each in self.shapes if len(each) == len(shape) == 1]
        value = self.of_shape(self.rng.choice([shape, *from_one]), depth - 1)
        places = self.of_type(shape, self.rng.choice(("int64", "int64", *INTEGERS)), 0)
        if self.chance(2):
            keys = self.of_shape(shape, 0)
            places = f"{keys.text}.argsort()"
        text = f"{value.text}.take({places})"
        if self.chance(3):
            text = f"kd.tile.take({value.text}, {places})"
        return Expression(text, value.dtype)

    def _function(self, shape: Shape, depth: int) -> Expression:
        """A device function that is given a tile, and gives one."""
        fitting = [f for f in self.functions if f.shape == shape and f.kind != "number"]
        if not fitting:
            return self._map(shape, depth)
        return self.call(self.rng.choice(fitting), depth - 1)

    def call(self, function: TileFunction, depth: int) -> Expression:
        """Return a call of a function with operations on tiles."""
        if function.kind == "load":
            arrays = self.inputs + self.outputs
            fitting = [
                a for a in arrays if (a.dtype, a.ndim) == (function.dtype, len(function.shape))
            ]
            array = self.rng.choice(fitting)
            args = [array.name, self.place(array, function.shape)]
        else:
            args = [self.of_type(function.shape, function.dtype, depth)]
            args.append(self.rng.choice(("n", "m", "2")))
        return Expression(f"{function.name}({', '.join(args)})", function.result)

    # -- truths and numbers --------------------------------------------------------------------
    def truth(self, shape: Shape, depth: int) -> str:
        """Return an expression of a tile of truths."""
        names = [n.text for n in self.names if n.shape == shape and n.dtype == "bool"]
        if names and self.chance(3):
            return self.rng.choice(names)
        left, right = self.of_shape(shape, depth), self._other(shape, 0)
        text = f"({left.text} {self.rng.choice(_COMPARISONS)} {right.text})"
        if depth > 0 and self.chance(2):
            text = f"({text} {self.rng.choice('&|^')} {self.truth(shape, 0)})"
        return f"(~{text})" if self.chance(5) else text

    def reduced(self, shape: Shape, depth: int, axis: int | None = None) -> Expression:
        """Return a reduction, to a number or along an axis."""
        given = "" if axis is None else f"axis={axis}"
        if self.chance(4):
            name = self.rng.choice(("any", "all", "sum"))
            dtype = {"sum": "int64"}.get(name, "bool")
            return Expression(f"{self.truth(shape, depth)}.{name}({given})", dtype)
        name = self.rng.choice(("sum", "sum", "prod", "max", "min", "mean", "argmax", "argmin"))
        value = self.of_shape(shape, depth)
        text = f"{value.text}.{name}({given})"
        if self.chance(4):
            text = f"kd.tile.{name}({', '.join(filter(None, (value.text, given)))})"
        return Expression(text, reduced_type(name, value.dtype))


def reduced_type(name: str, dtype: str) -> str:
    """Return the dtype of a reduction of numbers."""
    if name in ("argmax", "argmin"):
        return "int64"
    if dtype in FLOATS or name in ("max", "min"):
        return dtype
    if name == "mean":
        return "float64"
    return "uint64" if dtype.startswith("u") else "int64"


def _is_line(line: Shape, shape: Shape) -> bool:
    """Whether a tile of one row or one column is repeated to a shape."""
    fits = len(line) == 2 and all(a in (1, b) for a, b in zip(line, shape, strict=True))
    return fits and line != shape
