"""What threads do with parts of arrays: shared ones, their own elements of others, and arguments.

Each idiom writes a few lines into the body of :class:`~tests.fuzz.memory_parts.Memories`.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.array_idioms import assignment
from tests.fuzz.expressions import Expression
from tests.fuzz.group_idioms import group
from tests.fuzz.lane_idioms import in_warp, replaced_exchange, unused_exchange
from tests.fuzz.memory_parts import Memories, Memory, Part, Segment
from tests.fuzz.thread_idioms import statements
from tests.fuzz.typing import FLOATS, result_type

__all__ = ["alone", "name_part", "own_elements", "use_memory"]


def use_memory(memories: Memories, count: int, depth: int) -> None:
    """Write so many idioms; `depth` bounds how deeply loops and branches are nested."""
    for _ in range(count):
        idioms = _FLAT + (_NESTED if depth > 0 else [])
        memories.body.expressions.choose(idioms)(memories, depth)


def alone(memories: Memories, depth: int) -> None:
    """What one thread does by itself, with its own elements of arguments, too."""
    statements(memories.body, memories.body.rng.choice((1, 2)), depth)


# -- names of parts ----------------------------------------------------------------------------
def name_part(memories: Memories, depth: int = 0) -> None:
    """Give a part of an array a name: a slice, every second element, another shape, a choice."""
    body, choose = memories.body, memories.body.expressions.choose
    body.features.add("named part of a shared array")
    memory, whole = memories.choose()
    name, t, count = body.fresh("r"), body.thread, body.threads
    if len(whole.sizes) == 2:
        rows, columns = whole.sizes
        texts: list[tuple[str, tuple[str, ...]]] = [
            (f"{whole.name}[{memories._index(rows)}]", (columns,)),
            (f"{whole.name}[:, {memories._index(columns)}]", (rows,)),
            (f"{whole.name}[{t} % {rows}, {t} % 2:]", (f"{name}.size",)),
        ]
        if columns.isdigit() and int(columns) > 1:
            texts.append((f"{whole.name}[:, 1:]", (rows, str(int(columns) - 1))))
        text, sizes = choose(texts)
        body.emit(f"{name} = {text}")
        memory.parts.append(Part(name, whole.dtype, sizes, is_sized=sizes != (f"{name}.size",)))
        return
    (size,) = whole.sizes
    if not size.isdigit() or int(size) < 4:
        body.emit(f"{name} = {whole.name}[:]")
        memory.parts.append(Part(name, whole.dtype, (f"{name}.size",), is_sized=whole.is_sized))
        return
    length = int(size)
    cut = body.rng.choice((1, 2, 3, max(1, length - count)))
    found = [
        (f"[{cut}:]", length - cut),
        (f"[:-{cut}]", length - cut),
        (f"[{length // 2}:]", length - length // 2),
        (f"[:{length // 2}]", length // 2),
        ("[::2]", -(-length // 2)),
        ("[1::2]", length // 2),
        ("[::-1]", length),
        ("[:]", length),
        (f"[-{min(count, length)}:]", min(count, length)),
        *((f"[{t} % 4:]", 0), (f"[{t}:]", 0), ("[m:]", 0), (f"[{t} // 2::3]", 0)),
        *((f"[{t}:{t} + 3]", 0), (f"[:{t} % 64 + 1]", 0), (f"[n:n + {t} % 5 + 1]", 0)),
    ]
    height = choose([r for r in (2, 4, 8, 16) if length % r == 0] or [1])
    width = length // height
    shape = choose((f"{height}, {width}", f"({height}, {width})"))
    if whole.is_dense:
        found += [(f".reshape({shape})", -1)] * 3
    text, kept = choose(found)
    body.emit(f"{name} = {whole.name}{text}")
    if kept < 0:
        own: tuple[str, ...] = ()
        if length >= count:
            own = (f"{t} // {width}, {t} % {width}", f"{t} % {height}, {t} // {height}")
        part = Part(name, whole.dtype, (str(height), str(width)), own)
    elif kept:
        is_dense = whole.is_dense and "::" not in text
        own = _own(body.thread, count, kept)
        part = Part(name, whole.dtype, (str(kept),), own, is_dense=is_dense)
    else:
        part = Part(name, whole.dtype, (f"{name}.size",), is_sized=False)
    memory.parts.append(part)


def _own(t: str, count: int, size: int) -> tuple[str, ...]:
    """Subscripts of an axis that name another element in each thread."""
    if size < count:
        return ()
    found = [t, f"{count - 1} - {t}", f"({t} + 1) % {count}", f"{size - 1} - {t}", f"{t} - {size}"]
    if count % 64 == 0:
        found += [f"{t} ^ 32", f"{t} % 64 * {count // 64} + {t} // 64"]
    if size >= 2 * count:
        found += [f"2 * {t}", f"{t} + {count}", f"2 * {t} + 1"]
    return tuple(found)


def _chosen_part(memories: Memories, depth: int) -> None:
    """A name of one of two arrays, for the whole block or for each thread."""
    body, choose = memories.body, memories.body.expressions.choose
    lines = [m for m in memories.all if any(len(p.sizes) == 1 and p.is_sized for p in m.parts)]
    pairs = [(a, b) for a in lines for b in lines if a.dtype == b.dtype]
    if not pairs:
        return name_part(memories)
    body.features.add("one of two shared arrays")
    found = []
    for memory in choose(pairs):
        memories.read(memory)
        fitting = [p for p in memory.parts if len(p.sizes) == 1 and p.is_sized]
        fitting = [p for p in fitting if p.dtype == memory.dtype]
        found.append((memory, choose(fitting) if fitting else memory.parts[0]))
    for memory, _ in found:
        memories.read(memory)
    name = body.fresh("r")
    test = choose(("n > 2", "m == 2", body.expressions.condition(0), f"{body.thread} % 2 == 0"))
    first, second = (part.name for _, part in found)
    if body.expressions.chance(2):
        body.emit(f"{name} = {first}[:] if {test} else {second}[:]")
    else:
        body.emit(f"{name} = {first}[:]")
        body.emit(f"if {test}:")
        body.emit(f"    {name} = {second}[:]")
    part = Part(name, found[0][1].dtype, (f"{name}.size",))
    body.take(Expression(memories.element(part), part.dtype))
    return None


# -- stores and loads --------------------------------------------------------------------------
def _target(memories: Memories) -> tuple[Part, str]:
    """A part, and a subscript with which each thread may store there now."""
    memory = memories.body.expressions.choose(memories.all)
    part = memories.body.expressions.choose([p for p in memory.parts if p.own])
    own = memories.body.expressions.choose(part.own)
    memories.begin(memory, f"{part.name}[{own}]")
    return part, own


def _store(memories: Memories, depth: int = 0) -> None:
    body = memories.body
    part, own = _target(memories)
    target = f"{part.name}[{own}]"
    value = body.expressions.of_type(part.dtype, 1)
    if body.expressions.chance(2):  # another one in each thread
        variable = body.expressions.choose(body.variables)
        value = body.expressions.converted(variable, part.dtype).text + f" + np.{part.dtype}(i)"
    kind = body.rng.randrange(8)
    if kind == 0:
        with body.block(f"if {body.expressions.condition(1)}:"):
            body.emit(f"{target} = {value}")
    elif kind == 1:
        body.emit(f"{target} {body.expressions.choose('+-')}= {value}")
    elif kind < 4 and len(part.sizes) == 1 and "device functions of parts" in body.features:
        body.emit(f"put({part.name}, {own}, {value})")
    else:
        body.emit(assignment(body, target, value))
    if body.expressions.chance(4):
        body.take(Expression(target, part.dtype))
    if body.expressions.chance(4):
        alone(memories, 0)


def _load(memories: Memories, depth: int = 0) -> None:
    body, choose = memories.body, memories.body.expressions.choose
    memory, part = memories.choose()
    memories.read(memory)
    if not part.is_sized:
        found = body.temporary()
        text = memories.element(part) if body.expressions.chance(2) else f"{part.name}[0]"
        body.emit(f"{found} = {text} if {part.sizes[0]} > 0 else np.{part.dtype}(1)")
        return body.take(Expression(found, part.dtype))
    kind = body.rng.randrange(10)
    if kind > 7:
        return _neighbour(memories, part)
    if kind == 0 and len(part.sizes) == 1 and "device functions of parts" in body.features:
        return body.take(Expression(f"pick({part.name}, {body.thread})", part.dtype))
    if kind == 1:
        return _sum(memories, part)
    if kind == 2:
        return _tuple(memories)
    if kind == 3 and len(part.sizes) == 1:
        name = body.fresh("e")
        cut = choose(("[:3]", f"[{body.thread} % 2:{body.thread} % 2 + 2]", "[-2:]"))
        with body.block(f"for {name} in {part.name}{cut}:", Expression(name, part.dtype)):
            body.accumulate(Expression(name, part.dtype))
            if body.expressions.chance(2):
                body.features.add("break in a row")
                body.emit(f"if {name} > {body.expressions.leaf().text}:")
                body.emit(f"    {choose(('break', 'break', 'continue'))}")
                body.assign()
        return None
    element = Expression(memories.element(part), part.dtype)
    if kind == 4:
        counter = body.counter()
        with body.block(f"for {counter} in range({choose(('2', '3', 'm'))}):"):
            body.accumulate(element)
        return None
    if kind == 5:
        second = Expression(memories.element(part), part.dtype)
        dtype = result_type("-", part.dtype, part.dtype)
        return body.take(Expression(f"({element.text} - {second.text})", dtype))
    return body.take(element)


def _neighbour(memories: Memories, part: Part) -> None:
    """The element of a thread before or after this one, where there is one."""
    body, t, step = memories.body, memories.body.thread, memories.body.rng.choice((1, 1, 2, 64))
    size = part.sizes[0]
    if len(part.sizes) > 1 or not size.isdigit() or int(size) < body.threads:
        return body.take(Expression(memories.element(part), part.dtype))
    body.features.add("neighbour's element")
    index, test = body.expressions.choose(
        ((f"{t} - {step}", f"{t} >= {step}"), (f"{t} + {step}", f"{t} + {step} < {size}"))
    )
    name = body.temporary()
    body.emit(f"{name} = {part.name}[{index}] if {test} else np.{part.dtype}(0)")
    return body.take(Expression(name, part.dtype))


def _sum(memories: Memories, part: Part) -> None:
    """A sum over a short row of a part, in a call or a loop."""
    body, t, name = memories.body, memories.body.thread, memories.body.fresh("e")
    body.features.add("sum of a part")
    row, size = part.name, part.sizes[-1]
    if len(part.sizes) == 2:
        row = f"{part.name}[{memories._index(part.sizes[0])}]"
    row += body.expressions.choose((f"[{t} % {size}:][:3]", f"[:{t} % 3 + 1]", "[-2:]"))
    dtype = part.dtype
    if dtype not in FLOATS:
        dtype = "uint64" if dtype.startswith("u") else "int64"
    body.emit(f"{name} = np.sum({row})")
    body.take(Expression(name, dtype))


def _tuple(memories: Memories) -> None:
    """Arrays in a tuple, by constants and in a loop over it."""
    body, choose = memories.body, memories.body.expressions.choose
    body.features.add("tuple of shared arrays")
    pair, found = body.fresh("a"), []
    for _ in range(2):
        memory, part = memories.choose()
        found.append((memory, part if part.is_sized and len(part.sizes) == 1 else memory.parts[0]))
    for memory, _ in found * 2:
        memories.read(memory)
    parts = [part for _, part in found]
    body.emit(f"{pair} = ({', '.join(part.name for part in parts)})")
    if body.expressions.chance(2):
        at = body.rng.randrange(2)
        element = memories.element(parts[at]).removeprefix(parts[at].name)
        return body.take(Expression(f"{pair}[{at}]{element}", parts[at].dtype))
    if any(len(part.sizes) != 1 for part in parts):
        return body.take(Expression(memories.element(parts[0]), parts[0].dtype))
    each = body.fresh("e")
    variable = choose(body.variables)
    with body.block(f"for {each} in {pair}:"):
        value = f"{each}[{body.thread} % {each}.size]"
        test = choose((f"{value} > 3", f"{body.thread} % 2 == 0 and {value} != 0"))
        body.emit(f"if {test}:")
        one = body.expressions.of_type(variable.dtype, 0)
        body.emit(f"    {variable.text} = {one}")
    return None


def _move(memories: Memories, depth: int) -> None:
    """An element of one part is stored in another."""
    body = memories.body
    source, part = memories.choose()
    if not part.is_sized:
        return _load(memories)
    memories.read(source)
    target = body.expressions.choose([m for m in memories.all if m is not source] or [source])
    stored = body.expressions.choose([p for p in target.parts if p.own])
    own = body.expressions.choose(stored.own)
    value = Expression(memories.element(part), part.dtype)
    found = body.temporary()
    body.emit(f"{found} = {value.text}")
    memories.begin(target, f"{stored.name}[{own}]")
    value = body.expressions.converted(Expression(found, part.dtype), stored.dtype)
    body.emit(f"{stored.name}[{own}] = {value.text}")
    return None


def _segment(memories: Memories, depth: int) -> None:
    """Elements of a memory that are a thread's own for a while, through a name or by number."""
    body, t = memories.body, memories.body.thread
    memory = body.expressions.choose(memories.all)
    first, each = memory.parts[0], memory.each
    if len(first.sizes) != 1 or memory.size < each * body.threads:
        return _store(memories)
    body.features.add("segment of a thread")
    is_near = body.expressions.chance(2)
    memories.begin(memory, "near" if is_near else "far")
    name = body.fresh("r")
    if is_near:
        by_number, cut = (
            f"{first.name}[{t} * {each} + {{}}]",
            f"[{t} * {each}:{t} * {each} + {each}]",
        )
    else:
        by_number = f"{first.name}[{t} + {{}} * {body.threads}]"
        cut = f"[{t}:{each * body.threads}:{body.threads}]"
    body.emit(f"{name} = {first.name}{cut}")
    segments = [Segment(by_number, memory.dtype, each)]
    segments.append(Segment(f"{name}[{{}}]", memory.dtype, each, name))
    with memories.owning(segments):
        for _ in range(body.rng.choice((1, 2, 3))):
            own_elements(memories)
        alone(memories, body.rng.choice((0, 1)))
    if body.expressions.chance(2):
        _row(memories, name, memory)
    return None


def own_elements(memories: Memories, depth: int = 0) -> None:
    """Own elements are stored and others read, straight on, in short loops, or by the last one."""
    body, choose = memories.body, memories.body.expressions.choose
    if not memories.segments:
        return _store(memories)
    body.features.add("own elements")
    if body.expressions.chance(2):
        return _recurrence(memories)
    if body.expressions.chance(3):
        return _whole_rows(memories)
    target, source = choose(body.lvalues), choose(body.lvalues)
    op = choose(("=", "=", "+=", "-="))
    value = body.expressions.of_type(target.dtype, 1)
    if source.dtype == target.dtype:
        value = choose((source.text, f"{source.text} {choose('+-')} {value}"))
    if body.expressions.chance(3):
        counter = body.counter()
        with body.block(f"for {counter} in range({choose(('2', 'm', 'n % 4'))}):"):
            body.emit(f"{target.text} {op} {value}")
            if body.expressions.chance(2):
                body.emit(f"{choose(body.lvalues).text} = {choose(('0', '1', '3'))}")
    else:
        body.emit(f"{target.text} {op} {value}")
    if body.expressions.chance(2):
        body.take(choose(body.lvalues))
    return None


def _whole_rows(memories: Memories) -> None:
    """A row of own elements is computed from another one, or from the same by another name."""
    body, choose = memories.body, memories.body.expressions.choose
    rows = [s for s in memories.segments if s.row]
    if not rows:
        return _recurrence(memories)
    body.features.add("rows")
    one = choose(rows)
    # Of one length, they are the same elements or have none in common.
    other = choose([s for s in rows if s.dtype == one.dtype and s.count == one.count])
    number = choose(("1", "2", body.expressions.of_type(one.dtype, 0)))
    value = choose((other.row, f"{other.row} {choose('+-*')} {one.row}"))
    if one.dtype in FLOATS or one.dtype in ("int64", "int32", "int8"):
        value = choose((value, f"{other.row} {choose('+-*')} {number}"))
    op = choose(("=", "=", "+=") if "*" not in value else ("=",))
    if "float" in result_type("+", one.dtype, one.dtype) or value == other.row:
        body.emit(f"{one.row}[:] {op} {value}")
    elif one.dtype in ("int64", "uint64"):
        body.emit(f"{one.row}[:] = {other.row} + {one.row}")
    else:
        body.emit(f"{one.row}[:] = {other.row}")
    return None


def _recurrence(memories: Memories) -> None:
    """A short loop that stores elements through one name, and reads neighbours by another."""
    body, choose = memories.body, memories.body.expressions.choose
    one = choose(memories.segments)
    other = choose([s for s in memories.segments if s.dtype == one.dtype])
    least = min(one.count, other.count)
    if least < 2:
        return body.take(Expression(one.at("0"), one.dtype))
    body.features.add("recurrence through two names")
    k = body.counter()
    header = choose(
        (f"range(1, {least})", f"range({least - 1}, 0, -1)", f"range(1, min(m + 1, {least}))")
    )
    value = Expression(other.at(f"{k} - 1"), one.dtype)
    if body.expressions.chance(4):
        value = Expression(other.at(k), one.dtype)
    text = value.text
    kind = body.rng.randrange(4)
    if kind == 0:
        text = f"{value.text} {choose('+-*')} {body.expressions.of_type(one.dtype, 0)}"
    elif kind == 1:
        text = f"{value.text} {choose('+-')} {one.at(k)}"
    with body.block(f"for {k} in {header}:", Expression(k, "int64")):
        if body.expressions.chance(4):
            body.emit(f"{other.at('0')} = {choose(('1', '2'))}")
        body.emit(f"{one.at(k)} {choose(('=', '=', '+=', '-='))} {text}")
        if body.expressions.chance(3):
            body.accumulate(value)
        if body.expressions.chance(6):
            body.emit(f"if {value.text} > {body.expressions.leaf().text}:")
            body.emit("    break")
            body.assign()
    return None


def _row(memories: Memories, name: str, memory: Memory) -> None:
    """A thread's own row is copied into its local memory, changed there, and copied back."""
    body, held = memories.body, memories.body.fresh("lc")
    body.features.add("row of a thread")
    body.emit(f"{held} = kd.local.array({memory.each}, np.{memory.dtype})")
    body.emit(f"{held}[:] = {name}")
    body.emit(f"{held}[{body.rng.randrange(memory.each)}] = {body.rng.randrange(9)}")
    body.emit(f"{name}[:] = {body.expressions.choose((f'{held}', f'{held}[::-1]'))}")
    body.take(Expression(f"{name}[{body.rng.randrange(memory.each)}]", memory.dtype))


def _atomics(memories: Memories, depth: int) -> None:
    """Updates of any elements of a part, all by one operation."""
    body, choose = memories.body, memories.body.expressions.choose
    memory = choose(memories.all)
    parts = [p for p in memory.parts if p.dtype in ("int32", "int64", "uint32", "uint64")]
    parts = [p for p in parts if len(p.sizes) == 1 and p.is_sized and p.dtype == memory.dtype]
    if not parts:
        return _store(memories)
    body.features.add("atomic on a part")
    op = choose(("add", "sub", "max", "min", "and_", "or_", "xor"))
    memories.begin(memory, f"atomic {op}")
    for _ in range(body.rng.choice((1, 1, 2))):
        part = choose(parts)
        index = memories.element(part).removeprefix(f"{part.name}[").removesuffix("]")
        value = body.expressions.of_type(part.dtype, 1)
        body.emit(f"kd.atomic.{op}({part.name}, {index}, {value})")
    return None


def _trade(memories: Memories, depth: int) -> None:
    """A device function with barriers that is given a part, or the end of one."""
    body, memory = memories.body, memories.body.expressions.choose(memories.all)
    parts = [p for p in memory.parts if len(p.sizes) == 1 and p.own]
    if "device functions of parts" not in body.features or not parts or body.may_return:
        return _move(memories, depth)
    body.features.add("part given to a barrier function")
    part, count = body.expressions.choose(parts), body.threads
    memories.begin(memory, f"{part.name}[{body.thread}]")
    name = body.expressions.choose((part.name, f"{part.name}[{int(part.sizes[0]) - count}:]"))
    if name != part.name and part.sizes[0] != str(count):
        memories.begin(memory, f"{name}[{body.thread}]")
    value = body.expressions.of_type(part.dtype, 1)
    found = Expression(
        f"trade({name}, {body.thread}, {count}, {value})",
        result_type("-", part.dtype, part.dtype),
    )
    body.take(found)
    for each in memories.all:
        each.done = ""
    return None


def _tree(memories: Memories, depth: int) -> None:
    """A tree over the threads, in which a part is read by one name and stored by another."""
    body, t, w = memories.body, memories.body.thread, memories.body.fresh("w")
    memory = body.expressions.choose(memories.all)
    first = memory.parts[0]
    if body.threads & (body.threads - 1) or len(first.sizes) != 1 or body.threads < 2:
        return _move(memories, depth)
    body.features.add("tree of a block")
    part = body.fresh("r")
    body.emit(f"{part} = {first.name}[:{body.threads}]")
    body.emit(f"{w} = {body.threads // 2}")
    names = [body.expressions.choose((first.name, part)) for _ in range(2)]
    memories.barrier()
    with body.block(f"while {w} > 0:", uniform=(w,)):
        with body.block(f"if {t} < {w}:"):
            body.emit(f"{names[0]}[{t}] += {names[1]}[{t} + {w}]")
        body.emit("kd.syncthreads()")
        body.emit(f"{w} //= 2")
    memories.read(memory)
    return body.take(Expression(f"{part}[0]", memory.dtype))


def _exchanged_names(memories: Memories, depth: int) -> None:
    """Two names of arrays that change places in each iteration."""
    body, choose = memories.body, memories.body.expressions.choose
    halves = [m for m in memories.all if m.size >= 2 * body.threads and len(m.parts[0].sizes) == 1]
    if not halves:
        return _tree(memories, depth)
    body.features.add("names that change places")
    memory, count = choose(halves), body.threads
    first, a, b = memory.parts[0].name, body.fresh("a"), body.fresh("b")
    body.emit(f"{a}, {b} = {first}[:{count}], {first}[{count}:{2 * count}]")
    memories.barrier()
    part = Part(a, memory.dtype, (str(count),))
    with body.block(f"for {body.fresh('k')} in range({choose(('2', '3', 'm'))}):"):
        value = Expression(memories.element(part), memory.dtype)
        total = Expression(f"({value.text} + 1)", result_type("+", memory.dtype, "int64"))
        if total.dtype != memory.dtype:
            total = value
        body.emit(f"{b}[{choose(_own(body.thread, count, count))}] = {total.text}")
        body.emit("kd.syncthreads()")
        body.emit(f"{a}, {b} = {b}, {a}")
    memories.read(memory)
    return body.take(Expression(memories.element(part), memory.dtype))


# -- around these ------------------------------------------------------------------------------
def _lanes(memories: Memories, depth: int) -> None:
    idioms = (group, in_warp, replaced_exchange, replaced_exchange, unused_exchange)
    memories.body.expressions.choose(idioms)(memories.body, 0)


def _loop(memories: Memories, depth: int) -> None:
    body, name = memories.body, memories.body.fresh("k")
    header = body.expressions.choose(("range(2)", "range(3)", "range(m)", "(1, 2, 4)"))
    with memories.loop(f"for {name} in {header}:", name):
        use_memory(memories, body.rng.choice((1, 2, 2, 3)), depth - 1)


def _branch(memories: Memories, depth: int) -> None:
    body = memories.body
    test = body.expressions.choose(("n > 1", "m == 2", "kd.blockIdx.x > 0", *body.flags))
    with memories.branch(f"if {test}:"):
        use_memory(memories, body.rng.choice((1, 2)), depth - 1)


_Idiom = Callable[[Memories, int], None]
_FLAT: list[_Idiom] = [
    *(_store,) * 5,
    *(_load,) * 8,
    *(name_part,) * 5,
    *(_move,) * 3,
    *(_segment,) * 3,
    *(_atomics, _atomics, _tree, _exchanged_names, _chosen_part, _lanes, _lanes, _trade, _trade),
    *(own_elements, own_elements, alone),
]
_NESTED: list[_Idiom] = [*(_loop,) * 8, *(_branch,) * 3]
