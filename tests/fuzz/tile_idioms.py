"""What a block does with tiles: loads, stores, sums, loops, elements of its threads.

Every tile that is made reaches an array or a variable of the thread.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.body import Body
from tests.fuzz.expressions import Expression
from tests.fuzz.thread_idioms import statements
from tests.fuzz.tile_expressions import Tiles
from tests.fuzz.tile_names import OF_BLOCK, Shape, TileName, extents_of
from tests.fuzz.typing import DTYPES, FLOATS, INTEGERS, result_type

__all__ = ["call_tile_functions", "tile"]


def tile(body: Body, depth: int) -> None:
    """Write one idiom of tiles."""
    assert body.tiles is not None
    body.features.add("tiles")
    idioms = _STRAIGHT if body.loops > 1 else _STRAIGHT + _LOOPS
    body.expressions.choose(idioms)(body, body.tiles)


def call_tile_functions(body: Body) -> None:
    """Call the device functions on tiles that nothing has called yet."""
    tiles = body.tiles
    assert tiles is not None
    for function in tiles.functions:
        body.features.add("tile function")
        if any(f"{function.name}(" in line for line in body.lines):
            continue
        value = tiles.call(function, 0)
        if function.kind == "number":
            _take(body, value)
        else:
            _write(body, tiles, _name(body, function.shape, value))


def _name(body: Body, shape: Shape, value: Expression) -> TileName:
    """Assign a tile to a new variable."""
    assert body.tiles is not None
    found = TileName(body.fresh("z"), value.dtype, shape)
    body.emit(f"{found.text} = {value.text}")
    body.tiles.names.append(found)
    return found


def _made(body: Body, tiles: Tiles, shape: Shape, depth: int = 1) -> TileName:
    """Return a tile of numbers that is often a new one."""
    names = [n for n in tiles.names if n.shape == shape and n.dtype != "bool"]
    if names and tiles.chance(3):
        return tiles.rng.choice(names)
    return _name(body, shape, tiles.of_shape(shape, depth))


def _take(body: Body, value: Expression) -> None:
    """Put a number, or a truth, into a variable of the thread."""
    if value.dtype == "bool":
        value = Expression(f"(5 if {value.text} else 3)", "int64")
    body.take(value)


# -- numbers -----------------------------------------------------------------------------------
def _reduce(body: Body, tiles: Tiles) -> None:
    """A number, which expressions of tiles may be computed with from then on."""
    shape = tiles.rng.choice(tiles.shapes)
    value = tiles.reduced(shape, 1)
    functions = [f for f in tiles.functions if f.kind == "number"]
    if functions and tiles.chance(2):
        value = tiles.call(tiles.rng.choice(functions), 1)
    if value.dtype == "bool" or tiles.chance(3):
        _take(body, value)
        return
    name = body.fresh("u")
    body.emit(f"{name} = {value.text}")
    body.take(Expression(name, value.dtype))
    tiles.numbers.append(Expression(name, value.dtype))


def _axes(body: Body, tiles: Tiles) -> None:
    """Rows and columns, which are repeated after that."""
    shapes = [shape for shape in tiles.shapes if len(shape) == 2]
    if not shapes:
        return _reduce(body, tiles)
    body.features.add("tile along an axis")
    shape = tiles.rng.choice(shapes)
    axis = tiles.rng.choice((0, 1, -1, -2))
    value = tiles.reduced(shape, 0, axis)
    line = (1, shape[1]) if axis % 2 == 0 else (shape[0], 1)
    name = _name(body, line, value)
    if name.dtype == "bool":
        _take(body, Expression(f"{name.text}.{tiles.rng.choice(('any', 'all'))}()", "bool"))
    elif tiles.chance(2):
        _write(body, tiles, name)
    else:
        _take(body, tiles.reduced(shape, 1))
    return None


# -- memory ------------------------------------------------------------------------------------
def _store(body: Body, tiles: Tiles) -> None:
    _write(body, tiles, _made(body, tiles, tiles.rng.choice(tiles.shapes)))


def _write(body: Body, tiles: Tiles, found: TileName) -> None:
    """Store a tile, perhaps by a function of elements, else a sum of it."""
    rank = len(found.shape)
    arrays = [a for a in tiles.outputs if a.ndim == rank]
    fitting = [a for a in arrays if found.dtype in INTEGERS or a.dtype in FLOATS]
    function = tiles.stored.get(rank)
    text, array = found.text, tiles.rng.choice(fitting) if fitting else None
    if function and arrays and (array is None or tiles.chance(3)):
        body.features.add("tile stored by a function")
        array = arrays[0]
        text += f", {function}, {tiles.rng.choice(tiles.whole)}"
    if array is None:
        _take(body, Expression(f"{found.text}.max()", found.dtype))
        return
    body.emit(f"kd.tile.store({array.name}, {tiles.place(array, found.shape)}, {text})")


def _of_shared_array(body: Body, tiles: Tiles) -> None:
    """A tile of what the threads have written, or threads that read what a tile has left."""
    body.features.add("tile of a shared array")
    shared, shape = body.expressions.choose(body.shared), tiles.rng.choice(tiles.shapes)
    if len(shape) > 1:
        shape = OF_BLOCK
    at = tiles.rng.choice(("0", "0", "-1", "2", "n"))
    if shape == OF_BLOCK or tiles.chance(2):
        value = tiles.of_type(shape, shared.dtype, 1)
        body.emit(f"kd.tile.store({shared.name}, {at}, {value})")
        slot = tiles.rng.choice((f"{body.threads - 1} - {body.thread}", "0", body.thread))
        body.take(Expression(f"{shared.name}[{slot}]", shared.dtype))
        body.emit("kd.syncthreads()")
        return
    body.emit(f"{shared.own} = {body.expressions.of_type(shared.dtype, 1)}")
    text = f"kd.tile.load({shared.name}, {at}, {extents_of(shape)})"
    found = _name(body, shape, Expression(text, shared.dtype))
    _take(body, Expression(f"{found.text}.{tiles.rng.choice(('max', 'min'))}()", found.dtype))


def _own(body: Body, tiles: Tiles) -> None:
    """From threads to a tile and back."""
    body.features.add("tile of threads")
    dtype = body.expressions.choose(DTYPES)
    value = Expression(f"kd.tile.of({body.expressions.of_type(dtype, 1)})", dtype)
    found = _name(body, OF_BLOCK, value)
    if tiles.chance(3):
        found = _made(body, tiles, OF_BLOCK)
    if tiles.chance(3):
        number = tiles.reduced(OF_BLOCK, 0)
        _take(body, number)
    body.take(Expression(f"{found.text}.own", found.dtype))


# -- control -----------------------------------------------------------------------------------
def _test(body: Body, tiles: Tiles) -> str:
    """A condition of the block, perhaps on a tile."""
    if tiles.chance(2):
        return f"{tiles.rng.choice(tiles.whole)} > {tiles.rng.randrange(3)}"
    value = tiles.reduced(tiles.rng.choice(tiles.shapes), 0)
    if value.dtype == "bool":
        return value.text
    return f"{value.text} {tiles.rng.choice('<>')} {tiles.rng.choice(('3', '0.5', '-1'))}"


def _branch(body: Body, tiles: Tiles) -> None:
    """Another tile in the same variable, or a store, where a condition of the block holds."""
    body.features.add("tile in a branch")
    found = _made(body, tiles, tiles.rng.choice(tiles.shapes), 0)
    with body.block(f"if {_test(body, tiles)}:"):
        if tiles.chance(3):
            _write(body, tiles, found)
        elif found.dtype in INTEGERS:
            other = tiles.of_type(found.shape, found.dtype, 1)
            body.emit(f"{found.text} = {other}")
        else:
            op = tiles.rng.choice("+-*")
            other = tiles.of_type(found.shape, found.dtype, 0)
            body.emit(f"{found.text} {op}= {other}")
    if tiles.chance(2):
        with body.block("else:"):
            statements(body, 1, 0)
    _write(body, tiles, found)


def _accumulate(body: Body, tiles: Tiles) -> None:
    """A loop of loads, whose sum is a tile."""
    body.features.add("tile in a loop")
    shape = tiles.rng.choice(tiles.shapes)
    dtype = tiles.rng.choice(("int64", "float64", "float32", "uint64"))
    created = f"kd.tile.zeros({extents_of(shape)}, np.{dtype})"
    if shape == OF_BLOCK:
        created = f"kd.tile.of(np.{dtype}(0))"
    total = _name(body, shape, Expression(created, dtype))
    name, header = body.counter(), tiles.rng.choice(("range(n)", "range(3)", "range(0, m + 1)"))
    with body.block(f"for {name} in {header}:", Expression(name, "int64"), uniform=(name,)):
        added = tiles.of_type(shape, dtype, 1)
        arrays = [a for a in tiles.inputs if a.ndim == len(shape) and a.dtype == dtype]
        if arrays and shape != OF_BLOCK:
            first = f"{name} * {shape[0]}"
            place = first if len(shape) == 1 else f"({first}, {name})"
            added = f"kd.tile.load({tiles.rng.choice(arrays).name}, {place}, {extents_of(shape)})"
        op = tiles.rng.choice("+-*")
        assert result_type(op, dtype, dtype) == dtype
        body.emit(f"{total.text} {op}= {added}")
        if tiles.chance(3):
            statements(body, 1, 0)
        if tiles.chance(4):
            body.emit(f"if {_test(body, tiles)}:")
            body.emit(f"    {tiles.rng.choice(('break', 'continue'))}")
            body.assign()
    _write(body, tiles, total)


def _leave(body: Body, tiles: Tiles) -> None:
    """A return of the whole block, or of the grid."""
    if body.level > 1:
        return _store(body, tiles)
    body.features.add("early return of a block")
    tests = ["kd.blockIdx.x > n", "m + kd.blockIdx.x == 2", _test(body, tiles)]
    if body.crosses_grid:
        tests = ["n > 6", "m + n == 2"]
    body.emit(f"if {tiles.rng.choice(tests)}:")
    body.emit("    return")
    return _store(body, tiles)


_Idiom = Callable[[Body, Tiles], None]
_STRAIGHT: list[_Idiom] = [
    *(_store, _store, _store, _reduce, _reduce, _axes, _axes, _own, _own),
    *(_of_shared_array, _branch, _branch, _leave),
]
_LOOPS: list[_Idiom] = [_accumulate, _accumulate, _accumulate]
