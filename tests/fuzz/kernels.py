"""From a seed to a program: what a kernel is launched with, how it begins and how it ends."""

from __future__ import annotations

import math
import random

from tests.fuzz.block_idioms import call_function, together
from tests.fuzz.body import Body, Tile
from tests.fuzz.expressions import USUAL, ArrayName, Expression, Expressions
from tests.fuzz.functions import barrier_functions, helpers
from tests.fuzz.names import plain_names, renamed
from tests.fuzz.program import DATA_SETS, Array, Program, Scalar
from tests.fuzz.thread_idioms import call_helper, edge, statements
from tests.fuzz.typing import DTYPES

__all__ = ["generate"]

_HEADER = ["import math", "import numpy as np", "import kerneldsl as kd", "", ""]
_BLOCKS = (
    *((1,), (7,), (15,), (16,), (17,), (32,), (33,), (32,), (48,)),
    *((4, 4), (5, 3), (8, 2), (3, 7), (16, 2), (2, 2, 2), (4, 3, 2), (2, 3, 4)),
)
_GRIDS = ((1,), (1,), (2,), (2,), (3,), (2, 2), (1, 3), (2, 1, 2))
#: Scalars that guards compare coordinates with: of each dtype its ends, and places in between.
_LIMITS = {
    "int64": (2**63 - 1, 2**63 - 1, -(2**63), -(2**63), 2**63 - 2, 7, -1, 2**31, 2**32),
    "int32": (2**31 - 1, -(2**31), 5),
    "uint32": (2**32 - 1, 0, 9),
    "uint64": (2**64 - 1, 0, 2**63, 9),
    "uint8": (255, 0, 8),
    "int16": (32767, -32768, 6),
}
#: Places that are the same for all blocks that cover an extent.
_PLACES = {
    1: ("kd.grid(1)",),
    2: ("kd.grid(2)[0]", "kd.grid(2)[1]"),
    3: ("kd.grid(3)[0]", "kd.grid(3)[2]"),
}
_ATOMICS = ("add", "add", "sub", "max", "min", "and_", "or_", "xor")
_COUNTERS = ("int32", "int64", "uint32", "uint64")


class _Kernel:
    """Collects what a program is made of."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.lines = list(_HEADER)
        self.parameters: list[Array | Scalar] = []
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
                ArrayName(name, dtype, _sizes(name, ndim), is_table=True)
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
            self.expressions.arrays.append(ArrayName(name, dtype, _sizes(name, ndim), inside))

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
        for number in range(self.rng.choice((1, 2, 2))):
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
            self.body.emit(f"out{variable.text[1:]}[{index}] = {variable.text}")
        for number, tile in enumerate(self.body.tiles):
            self.body.emit(f"slots{number}[{index}] = {tile.own}")

    def finish(self) -> tuple[str, tuple[Array | Scalar, ...]]:
        names = [p.name for p in self.parameters]
        definition = [f"@kd.kernel({', '.join(self.options)})", f"def kernel({', '.join(names)}):"]
        text = "\n".join([*self.lines, *definition, *self.body.lines]) + "\n"
        text = plain_names(text) if self.chance(2) else renamed(text, self.rng)
        return text, tuple(self.parameters)


def _sizes(name: str, ndim: int) -> tuple[str, ...]:
    if ndim == 1:
        return (f"{name}.size",)
    return tuple(f"{name}.shape[{axis}]" for axis in range(ndim))


# -- element kernels ---------------------------------------------------------------------------
def _element(seed: int) -> Program:
    """A kernel of independent elements, launched by ``forall`` or over a grid with a guard."""
    made = _Kernel(seed)
    rng, body = made.rng, made.body
    is_forall = rng.random() < 0.6
    ndim = rng.choice((1, 1, 1, 2, 2, 3))
    sizes = {1: (1, 5, 15, 16, 17, 33, 64, 70), 2: (1, 3, 4, 7, 17), 3: (1, 2, 3, 5)}[ndim]
    extents = tuple(tuple(rng.choice(sizes) for _ in range(ndim)) for _ in range(DATA_SETS))
    names = ("i", "j", "k")[:ndim]
    body.coordinates = names
    index = ", ".join(names)
    made.scalars()
    made.constants()
    made.expressions.values += [Expression(n, "int64") for n in names] * 2
    made.tables()
    guard = _choose_guard(rng, ndim, is_forall=is_forall)
    made.inputs(extents, index, is_inside=guard != "late" and rng.random() < 0.8)
    made.output(extents)
    made.counters()
    body.expressions.functions += helpers(rng, made.lines, _PLACES[ndim])
    body.uniform += ["n", "m", "out0.size"]
    _place(made, names, is_forall)
    _guard(made, names, guard)
    body.may_return = guard in ("early", "none") and rng.random() < 0.5
    made.variables()
    if guard != "late" and rng.random() < 0.3:
        body.lvalues += [Expression(f"out0[{index}]", made_dtype(made, "out0"))]
        body.emit(f"out0[{index}] = {made.expressions.of_type(made_dtype(made, 'out0'), 1)}")
    statements(body, rng.choice((1, 1, 2, 2, 3)), rng.choice((1, 1, 2)))
    made.call_the_rest()
    if guard == "late":
        edge(body)
        _guard(made, names, "nested")
    made.store(index)
    text, parameters = made.finish()
    made.features |= {"element kernel", f"{ndim}-d", "forall" if is_forall else "grid"}
    if is_forall:
        return Program(seed, text, parameters, extents=extents, features=frozenset(made.features))
    block = {1: (16,), 2: (8, 4), 3: (4, 2, 2)}[ndim]
    grid = _covering(extents, block)
    return Program(seed, text, parameters, grid, block, extents, features=frozenset(made.features))


def _covering(extents: tuple[tuple[int, ...], ...], block: tuple[int, ...]) -> tuple[int, ...]:
    """Blocks that cover the largest extent, whose last axis is x."""
    largest = [max(sizes) for sizes in zip(*extents, strict=True)][::-1]
    return tuple(-(-n // b) for n, b in zip(largest, block, strict=True))


def _place(made: _Kernel, names: tuple[str, ...], is_forall: bool) -> None:
    """Ask for the thread's place; ``grid`` counts x first in a grid, last under ``forall``."""
    order = names if is_forall else names[::-1]
    body, ndim = made.body, len(names)
    if ndim > 1 and made.chance(6):
        body.emit(f"place = kd.grid({ndim})")
        for position, name in enumerate(order):
            body.emit(f"{name} = place[{position}]")
    elif is_forall or made.chance(2):
        body.emit(f"{', '.join(order)} = kd.grid({ndim})")
    else:
        for axis, name in zip("xyz", order, strict=False):
            body.emit(f"{name} = kd.blockIdx.{axis} * kd.blockDim.{axis} + kd.threadIdx.{axis}")


def _choose_guard(rng: random.Random, ndim: int, *, is_forall: bool) -> str:
    """Where the threads beyond the output are left out; under forall there are none."""
    kinds = ["early", "early", "nested", "nested", "nested"]
    if is_forall:
        return rng.choice(kinds + ["none"] * 5)
    return rng.choice([*kinds, "late", "late", "late", "stride" if ndim == 1 else "nested"])


def _guard(made: _Kernel, names: tuple[str, ...], kind: str) -> None:
    """Leave out the threads beyond the output, before or around what follows."""
    body, rng = made.body, made.rng
    sizes = _sizes("out0", len(names))
    if kind == "early":
        tests = [
            rng.choice((f"{n} >= {s}", f"{s} <= {n}")) for n, s in zip(names, sizes, strict=True)
        ]
        body.emit(f"if {' or '.join(tests)}:")
        body.emit("    return")
    elif kind == "nested":
        tests = [
            rng.choice((f"{n} < {s}", f"{s} > {n}")) for n, s in zip(names, sizes, strict=True)
        ]
        extra = rng.choice(([], [], ["m > 0"], [f"{names[0]} <= lim"], [f"{names[-1]} != lim"]))
        if any("lim" in e for e in extra):
            made.features.add("extreme scalar")
        if extra and rng.random() < 0.5:
            body.emit(f"if {extra[0]}:")
            body.level += 1
            extra = []
        body.emit(f"if {' and '.join([*tests, *extra])}:")
        body.level += 1
    elif kind == "stride":
        (name,) = names
        body.emit(f"for {name} in range({name}, out0.size, kd.gridsize(1)):")
        made.features.add("grid-stride loop")
        body.level += 1
        body.loops += 1


def made_dtype(made: _Kernel, name: str) -> str:
    """The dtype of a parameter."""
    return next(p.dtype for p in made.parameters if p.name == name)


# -- block kernels -----------------------------------------------------------------------------
def _block(seed: int) -> Program:
    """A kernel whose threads meet at barriers."""
    made = _Kernel(seed)
    rng, body = made.rng, made.body
    block, grid = rng.choice(_BLOCKS), rng.choice(_GRIDS)
    threads = math.prod(block)
    if threads * math.prod(grid) > 100:
        grid = (1,)
    total = threads * math.prod(grid)
    body.threads, body.coordinates = threads, ("i", "t")
    sizes = (total, rng.choice((total, total - rng.randrange(threads))))
    returns_first = rng.random() < 0.25
    if returns_first:  # nobody does, but it is there
        sizes = (total, total)
    shapes = tuple((max(1, s),) for s in sizes)
    made.scalars()
    made.constants()
    made.expressions.values += [Expression("i", "int64"), Expression("t", "int64")] * 2
    made.tables()
    made.inputs(shapes, "i", is_inside=returns_first)
    made.output(shapes)
    made.counters()
    body.may_return = rng.random() < 0.3
    body.expressions.functions += helpers(
        rng, made.lines, ("kd.threadIdx.x", "kd.blockIdx.x", "kd.grid(1)")
    )
    dtypes = [rng.choice(USUAL) for _ in range(rng.choice((1, 1, 2)))]
    body.barrier_functions += barrier_functions(
        rng, threads, dtypes, made.lines, may_return=body.may_return
    )
    body.uniform += ["n", "m", "kd.blockIdx.x", "kd.gridDim.x", "out0.size"]
    _ids(made, block, grid)
    if returns_first:
        body.emit("if i >= out0.size:")
        body.emit("    return")
        made.features.add("early return")
    _tiles(made, dtypes, block)
    made.variables()
    if rng.random() < 0.3:
        statements(body, 1, 2)
    for number, dtype in enumerate(dtypes):
        made.parameters.append(Array(f"slots{number}", dtype, shapes, "output"))
    together(body, rng.choice((1, 1, 1, 2)), rng.choice((0, 1, 1, 2)))
    made.call_the_rest()
    if not returns_first:
        body.emit("if i < out0.size:")
        body.level += 1
    made.store("i")
    text, parameters = made.finish()
    made.features |= {"block kernel", f"{len(block)}-d"}
    return Program(seed, text, parameters, grid, block, features=frozenset(made.features))


def _ids(made: _Kernel, block: tuple[int, ...], grid: tuple[int, ...]) -> None:
    """The thread's number in its block, `t`, and in the grid, `i`."""
    body = made.body
    if len(block) == 1:
        body.emit("t = kd.threadIdx.x")
    elif len(block) == 2:
        body.emit("tx, ty = kd.threadIdx.x, kd.threadIdx.y")
        body.emit(f"t = tx + ty * {made.rng.choice(('kd.blockDim.x', str(block[0])))}")
        made.expressions.values += [Expression("tx", "int64"), Expression("ty", "int64")]
    else:
        body.emit(
            "t = kd.threadIdx.x + kd.blockDim.x * (kd.threadIdx.y + kd.blockDim.y * kd.threadIdx.z)"
        )
    place = "kd.blockIdx.x"
    if len(grid) > 1:
        place = "(kd.blockIdx.x + kd.gridDim.x * (kd.blockIdx.y + kd.gridDim.y * kd.blockIdx.z))"
    body.emit(f"i = {place} * {body.threads} + t")


def _tiles(made: _Kernel, dtypes: list[str], block: tuple[int, ...]) -> None:
    """Shared arrays, filled before any thread can return or read another's slot."""
    body, rng, count = made.body, made.rng, made.body.threads
    for number, dtype in enumerate(dtypes):
        tile = Tile(f"s{number}", dtype, f"s{number}[t]")
        body.emit(f"{tile.name} = kd.shared.array({count}, {rng.choice(('np', 'kd'))}.{dtype})")
        body.emit(f"{tile.own} = {rng.choice(('0', 't', f'np.{dtype}(t)'))}")
        body.tiles.append(tile)
        body.lvalues.append(Expression(tile.own, dtype))
        made.expressions.values.append(Expression(tile.own, dtype))
    if made.chance(3):
        body.halo = Tile("halo", rng.choice(DTYPES), "halo[t + 1]")
        body.emit(f"halo = kd.shared.array({count + 2}, np.{body.halo.dtype})")
        body.emit("halo[t + 1] = 0")
        body.emit("if t == 0:")
        body.emit(f"    halo[0] = halo[{count + 1}] = 0")
    if len(block) == 2:
        (width, height), dtype = block, rng.choice(USUAL)
        body.plane, body.plane_dim = Tile("plane", dtype, "plane[ty, tx]"), (width, height)
        body.emit(f"plane = kd.shared.array(({height}, {width}), np.{dtype})")
        body.emit("plane[ty, tx] = 0")
    if made.chance(4):
        body.bins = Tile("bins", rng.choice(("int32", "int64", "uint32")), "")
        body.emit(f"bins = kd.shared.array(4, np.{body.bins.dtype})")
        body.emit("if t == 0:")
        body.emit("    for b in range(4):")
        body.emit("        bins[b] = 0")
    body.emit("kd.syncthreads()")


# -- programs that must be refused -------------------------------------------------------------
_VARYING_LOOPS = (
    ("r = x[t:]", "for k in range(r.size):"),
    ("r = x[:t + 1]", "for e in r:"),
    ("r = x if t < 3 else x[2:]", "for k in range(r.shape[0]):"),
    (
        "r = kd.local.array(4, np.int64)\n    for k in range(4):\n        r[k] = t",
        "for e in r:\n        if e > 4:",
    ),
    ("r = t % 3", "for k in range(r):"),
    ("kd.atomic.add(c, 0, 1)", "for k in range(c[0] % 3):"),
    ("kd.atomic.add(c, 0, 1)", "for e in c:\n        if e > 4:"),
    ("r = t", "if r > 2:"),
    ("r = x[t] % 5", "while r > 2:\n        r -= 1"),
)


def _divergent(seed: int) -> Program:
    """A barrier that not all threads of a block reach equally often."""
    rng = random.Random(seed)
    before, header = rng.choice(_VARYING_LOOPS)
    depth = 3 if header.count("\n") and header.endswith(":") else 2
    lines = ["@kd.kernel", "def kernel(x, c, out):", "    t = kd.threadIdx.x", f"    {before}"]
    lines += ["    v = 0", f"    {header}", "    " * depth + "kd.syncthreads()"]
    lines += ["    " * depth + "v += 1", "    out[t] = v"]
    text = renamed("\n".join([*_HEADER, *lines]) + "\n", rng)
    parameters = (
        Array("x", "int64", ((8,),) * DATA_SETS),
        Array("c", "int64", ((2,),) * DATA_SETS, "counter"),
        Array("out", "int64", ((8,),) * DATA_SETS, "output"),
    )
    features = frozenset({"divergent barrier"})
    return Program(seed, text, parameters, (1,), (8,), is_divergent=True, features=features)


def generate(seed: int) -> Program:
    """Return the program of a seed."""
    kind = random.Random(f"kind {seed}").random()
    if kind < 0.03:
        return _divergent(seed)
    return _element(seed) if kind < 0.55 else _block(seed)
