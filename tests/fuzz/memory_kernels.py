"""Kernels on parts of memory: shared arrays by several names, and arguments that overlap.

Most blocks have a multiple of 64 threads, which a CPU may run strip by strip.
"""

from __future__ import annotations

import math

import numpy as np

from tests.fuzz.block_kernels import thread_ids
from tests.fuzz.expressions import USUAL, Expression
from tests.fuzz.functions import helpers, operations
from tests.fuzz.grid_idioms import crosses_grid, pass_on
from tests.fuzz.kernel_parts import Kernel
from tests.fuzz.memory_idioms import alone, name_part, own_elements, use_memory
from tests.fuzz.memory_parts import Memories, Memory, Part, Segment
from tests.fuzz.program import DATA_SETS, Array, Overlap, Program

__all__ = ["memory_program", "overlap_program"]

_BLOCKS = (
    *((64,), (64,), (128,), (128,), (128,), (192,), (256,)),
    *((64, 2), (32, 4), (16, 8), (32, 4), (16, 16), (8, 8), (8, 4, 4), (4, 4, 8)),
    *((96,), (65,), (100,), (33,), (12, 11)),
)
#: Most threads of a launch, which the oracle runs one after the other.
_THREADS = 256
_WORDS = ("int64", "uint64", "int32", "uint32")
#: Device functions of parts: nested ones that read one, one that stores, one that exchanges.
_FUNCTIONS = """
@kd.func
def first(v, k):
    return v[k % v.size]

@kd.func
def pick(v, k):
    w = v[k % 2:] if v.size > 1 else v[:]
    return first(w, k)

@kd.func
def put(v, k, value):
    v[k] = value

@kd.func
def trade(v, k, count, value):
    v[k] = value
    kd.syncthreads()
    found = v[(k + 1) % count] - v[count - 1 - k]
    kd.syncthreads()
    return found

"""


def memory_program(seed: int) -> Program:
    """A kernel whose threads exchange elements of shared arrays by many names of their parts."""
    made = Kernel(seed)
    rng, body = made.rng, made.body
    block = rng.choice(_BLOCKS)
    threads = math.prod(block)
    grid = (rng.choice((1, 1, 2)),) if 2 * threads <= _THREADS else (1,)
    total = threads * grid[0]
    body.threads, body.coordinates, body.levels = (
        threads,
        ("i", "t"),
        frozenset({"lanes", "groups"}),
    )
    body.is_kept = True
    made.scalars()
    made.constants()
    made.expressions.values += [Expression("i", "int64"), Expression("t", "int64")] * 3
    made.tables()
    shapes = ((total,),) * DATA_SETS
    made.inputs(shapes, "i", is_inside=True)
    made.output(shapes)
    if made.chance(3):
        body.expressions.functions += helpers(rng, made.lines, ("kd.threadIdx.x", "kd.grid(1)"))
    body.operations += operations(rng, made.lines)
    if made.chance(2):
        made.lines += _FUNCTIONS.splitlines()
        made.features.add("device functions of parts")
    body.uniform += ["n", "m", "kd.blockIdx.x"]
    thread_ids(made, block, grid)
    memories = Memories(body)
    shared_bytes = _share(made, memories, block)
    made.variables()
    if made.chance(2):
        memories.own(_own_arrays(made, shapes))
    if not crosses_grid(seed) and made.chance(6):
        memories.barrier()
        body.features.add("early return")
        body.may_return = True
        body.emit(f"if {body.expressions.condition(1)}:")
        body.emit("    return")
    for _ in range(rng.choice((0, 1, 2))):
        name_part(memories)
    use_memory(memories, rng.choice((3, 4, 5, 6, 8)), rng.choice((0, 1, 1, 2)))
    if crosses_grid(seed):
        memories.barrier()
        pass_on(made, total, lambda: _between_barriers(memories))
    made.call_the_rest()
    made.store("i")
    _copy_out(made, memories, grid[0])
    text, parameters = made.finish()
    features = frozenset({"memory kernel", f"{len(block)}-d", *made.features})
    return Program(
        seed, text, parameters, grid, block, shared_bytes=shared_bytes, features=features
    )


def _between_barriers(memories: Memories) -> None:
    use_memory(memories, 2, 1)
    memories.barrier()


def overlap_program(seed: int) -> Program:
    """A kernel of independent elements, of which arguments have several in common."""
    made = Kernel(seed)
    rng, body = made.rng, made.body
    extents = tuple((rng.choice((1, 5, 16, 33, 64, 70, 130)),) for _ in range(DATA_SETS))
    made.scalars()
    made.constants()
    made.expressions.values += [Expression("i", "int64")] * 2
    made.tables()
    made.inputs(extents, "i", is_inside=True)
    made.output(extents)
    body.uniform += ["n", "m"]
    body.is_kept = True
    body.emit("i = kd.grid(1)")
    is_forall = not made.chance(3)
    if not is_forall:
        body.emit("if i < out0.size:")
        body.level += 1
    made.variables()
    memories = Memories(body)
    memories.own(_own_arrays(made, extents))
    for _ in range(rng.choice((2, 3, 4))):
        body.expressions.choose((own_elements, own_elements, own_elements, alone))(memories, 1)
    made.store("i")
    text, parameters = made.finish()
    features = frozenset({"overlap kernel", "forall" if is_forall else "grid", *made.features})
    if is_forall:
        return Program(seed, text, parameters, extents=extents, features=features)
    block = rng.choice((16, 64, 96))
    grid = (-(-max(size for (size,) in extents) // block),)
    return Program(seed, text, parameters, grid, (block,), extents, features=features)


# -- shared arrays -----------------------------------------------------------------------------
def _share(made: Kernel, memories: Memories, block: tuple[int, ...]) -> int:
    """Shared arrays of one and two axes, some by several names; return their dynamic bytes."""
    rng, body, count, dynamic = made.rng, made.body, made.body.threads, 0
    for number in range(rng.choice((1, 2, 2, 3))):
        name, dtype, each = f"s{number}", rng.choice(USUAL), rng.choice((2, 3, 4))
        size = rng.choice((count, count, 2 * count, 2 * count, each * count, count + 1, count + 64))
        kind = rng.choice(("line", "line", "line", "plane", "dynamic"))
        if kind == "plane":
            parts = [_plane(made, name, dtype, block)]
            rows, columns = map(int, parts[0].sizes)
            size = rows * columns
        elif kind == "dynamic" and not dynamic:
            dtype = rng.choice((*_WORDS, "float64"))
            dynamic = size * np.dtype(dtype).itemsize
            parts = _dynamic(made, name, dtype, size, dynamic)
            size = int(parts[0].sizes[0])
        else:
            body.emit(f"{name} = kd.shared.array({size}, np.{dtype})")
            parts = [_line(made, name, dtype, size)]
        body.emit(f"for k in range(t, {size}, {count}):")
        body.emit(f"    {_numbered(parts[0])} = {rng.choice(('0', 'k', 'k', 'k * 7 % 5'))}")
        memories.all.append(Memory(dtype, size, parts, each, "any"))
    return dynamic


def _numbered(part: Part) -> str:
    """Element `k` in the order of memory."""
    if len(part.sizes) == 1:
        return f"{part.name}[k]"
    return f"{part.name}[k // {part.sizes[1]}, k % {part.sizes[1]}]"


def _line(made: Kernel, name: str, dtype: str, size: int) -> Part:
    t, count = made.body.thread, made.body.threads
    own: tuple[str, ...] = (t, t, f"{count - 1} - {t}", f"({t} + 1) % {count}", f"{t} - {size}")
    if count % 64 == 0:
        own += (f"{t} ^ 32", f"{t} % 64 * {count // 64} + {t} // 64")
    if size >= 2 * count:
        own += (f"2 * {t}", f"2 * {t} + 1", f"{t} + {count}")
    if size > count:
        own += (f"{t} + 1", f"{t} + {size - count}")
    return Part(name, dtype, (str(size),), own, is_dense=True)


def _plane(made: Kernel, name: str, dtype: str, block: tuple[int, ...]) -> Part:
    """An array of two axes: those of the block, or others; columns may be padded."""
    count, rng, t = made.body.threads, made.rng, made.body.thread
    columns = rng.choice([c for c in (4, 8, 16, 32, 64) if count % c == 0] or [1])
    if len(block) == 2:
        columns = block[0]
    rows, padded = count // columns, columns + rng.choice((0, 0, 1))
    made.body.emit(f"{name} = kd.shared.array(({rows}, {padded}), np.{dtype})")
    own: tuple[str, ...] = (f"{t} // {columns}, {t} % {columns}", f"{t} % {rows}, {t} // {rows}")
    if len(block) == 2:
        own += ("ty, tx",) * 3
    made.features.add("shared plane")
    return Part(name, dtype, (str(rows), str(padded)), own)


def _dynamic(made: Kernel, name: str, dtype: str, size: int, total: int) -> list[Part]:
    """Dynamic shared memory, whose other names are of other dtypes or begin later."""
    rng, body = made.rng, made.body
    made.features.add("dynamic shared memory")
    body.emit(f"{name} = kd.shared.array(0, np.{dtype})")
    parts = [_line(made, name, dtype, size)]
    for number in range(rng.choice((0, 1, 1, 2))):
        made.features.add("dynamic shared memory by two names")
        other = dtype if dtype == "float64" or made.chance(2) else rng.choice(_WORDS)
        length, start = total // np.dtype(other).itemsize, rng.choice((0, 0, 1, 64))
        alias = f"{name}{'ab'[number]}"
        if start >= length:
            start = 0
        cut = f"[{start}:]" if start else ""
        body.emit(f"{alias} = kd.shared.array(0, np.{other}){cut}")
        part = _line(made, alias, other, length - start)
        if length - start < body.threads:
            part = Part(alias, other, part.sizes, is_dense=True)
        parts.append(part)
    return parts


def _copy_out(made: Kernel, memories: Memories, blocks: int) -> None:
    """All elements of shared arrays reach an output."""
    body, count = made.body, made.body.threads
    for number, memory in enumerate(memories.all):
        memories.read(memory)
        shapes = ((memory.size * blocks,),) * DATA_SETS
        made.parameters.append(Array(f"all{number}", memory.dtype, shapes, "output"))
        body.emit(f"for k in range(t, {memory.size}, {count}):")
        body.emit(
            f"    all{number}[kd.blockIdx.x * {memory.size} + k] = {_numbered(memory.parts[0])}"
        )


# -- arguments that overlap --------------------------------------------------------------------
def _own_arrays(made: Kernel, extents: tuple[tuple[int, ...], ...]) -> list[Segment]:
    """Arrays with several elements of each thread, and parameters that are parts of them."""
    rng, found = made.rng, []
    for number in range(rng.choice((1, 1, 2))):
        name, dtype, each = f"x{number + 5}", rng.choice(USUAL), rng.choice((2, 3, 4, 8))
        kind = rng.choice(("near", "near", "far", "rows", "columns"))
        counts = [size for (size,) in extents]
        shapes = {
            "rows": [(n, each) for n in counts],
            "columns": [(each, n) for n in counts],
        }.get(kind, [(n * each,) for n in counts])
        made.parameters.append(Array(name, dtype, tuple(shapes)))
        text = {
            "near": f"{name}[i * {each} + {{}}]",
            "far": f"{name}[i + {{}} * out0.size]",
            "rows": f"{name}[i, {{}}]",
            "columns": f"{name}[{{}}, i]",
        }[kind]
        row = f"{name}[i]" if kind == "rows" else ""
        found.append(Segment(text, dtype, each, row))
        for other in range(rng.choice((1, 1, 2))):
            found.append(_overlap(made, f"{name}{'ab'[other]}", found[-1 - other], kind, counts))
    return found


def _overlap(made: Kernel, name: str, base: Segment, kind: str, counts: list[int]) -> Segment:
    """A parameter that is all of an array, a part of it, or its transpose; its own elements."""
    rng, of, each = made.rng, base.text.partition("[")[0], base.count
    text, left = f"{name}[{base.text.partition('[')[2]}", each
    row = f"{name}[i]" if kind == "rows" else ""
    by = rng.randrange(1, each)
    cuts: list[tuple[slice, ...]] = [()] * DATA_SETS
    form = rng.choice(("whole", "whole", "later", "later", "back", "transposed", "apart"))
    made.features.add("one array as two arguments" if form == "whole" else "overlapping arguments")
    is_transposed = form == "transposed" and kind in ("rows", "columns")
    if form == "later":
        left = each - by
        cut: dict[str, tuple[slice, ...]] = {
            "rows": (slice(None), slice(by, None)),
            "columns": (slice(by, None),),
        }
        cuts = [cut.get(kind, (slice(by if kind == "near" else by * n, None),)) for n in counts]
    elif form == "back":
        cuts = [(slice(None, None, -1),)] * DATA_SETS
        text = {
            "near": f"{name}[-1 - (i * {each} + {{}})]",
            "far": f"{name}[-1 - (i + {{}} * out0.size)]",
            "rows": f"{name}[-1 - i, {{}}]",
            "columns": f"{name}[-1 - {{}}, i]",
        }[kind]
        row = f"{name}[-1 - i]" if row else ""
    elif is_transposed:
        text = f"{name}[{{}}, i]" if kind == "rows" else f"{name}[i, {{}}]"
        row = f"{name}[:, i]" if row else f"{name}[i]"
    made.parameters.append(
        Overlap(name, base.dtype, of, tuple(cuts), is_transposed, is_apart=form == "apart")
    )
    return Segment(text, base.dtype, left, row)
