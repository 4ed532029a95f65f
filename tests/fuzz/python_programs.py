"""Programs with Python as their oracle: closures, complex numbers, records, loops with ``else``.

The kernel's own Python function gives the bits that it must compute
(:mod:`tests.fuzz.python_worker`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from tests.fuzz.python_expressions import Writer

__all__ = ["PythonProgram", "generate_python"]

_HEADER = """
import numpy as np
import kerneldsl as kd

INNER = np.dtype([("k", np.int64), ("u", np.uint8)])
R = np.dtype([("a", np.int64), ("v", np.float64, (3,)), ("s", np.int16), ("in", INNER)], align=True)

@kd.func
def clamp(v, low, high=50):
    if v < low:
        return low
    return high if v > high else v

@kd.func
def first_at_least(x, at, count, limit):
    for k in range(count):
        if x[(at + k) % x.size] >= limit:
            return k
    return -1

@kd.func
def parts(v, *rest):
    total = v * 3
    for each in rest:
        total = total * 2 - each
    return total, v - total

"""
_BARRIERS = """
@kd.func
def search(s, t, n, key):
    found = np.int64(-1)
    for k in range(n):
        kd.syncthreads()
        if s[k] % 7 == key:
            return found * 2 + k
        kd.syncthreads()
        if k > 5:
            return np.int64(-9)
        s[t] += k
    return found

@kd.func
def rotate(s, t, n, by):
    kd.syncthreads()
    v = s[(t + by) % n]
    kd.syncthreads()
    s[t] = v
    kd.syncthreads()
    return s[n - 1 - t]

"""
_PARAMETERS = "x, f, g, r, passed, o, out, real, whole, n, m"
_NUMBER = "kd.threadIdx.x + kd.blockDim.x * (kd.threadIdx.y + kd.blockDim.y * kd.threadIdx.z)"
_BLOCKS = ((1,), (7,), (32,), (33,), (64,), (64,), (128,), (8, 4), (5, 3), (16, 8), (4, 2, 2))


@dataclass(frozen=True)
class PythonProgram:
    """A program.

    Parameters
    ----------
    seed : int
        What it was generated from.
    text : str
        Its source.
    total : int
        Threads of a launch, and elements of each array.
    grid, block : tuple of int or None
        An explicit launch; without them, it is launched by ``forall``.
    shared_bytes : int
        Dynamic shared memory of a block.
    features : frozenset of str
        What it was made of.
    """

    seed: int
    text: str
    total: int
    grid: tuple[int, ...] | None
    block: tuple[int, ...] | None
    shared_bytes: int
    features: frozenset[str]


def generate_python(seed: int) -> PythonProgram:
    """Return the program of a seed."""
    return _Block(seed).make() if seed % 8 < 5 else _Thread(seed).make()


class _Thread(Writer):
    """Writes what one thread does."""

    grid: tuple[int, ...] | None = None
    block: tuple[int, ...] | None = None
    shared_bytes = 0

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.seed = seed
        self.total = self.rng.choice((1, 33, 70))
        self.features.add("element kernel")

    def make(self) -> PythonProgram:
        """Return the program."""
        self.begin()
        for _ in range(self.rng.choice((1, 2, 3))):
            self.statement(2)
        self.end()
        self.emit("out[i] = a", "out[i] ^= b * 3", "real[i] = c", "whole[i] = z")
        options = self.pick(*("contract=False",) * 7, "contract=False, debug=True")
        head = f"@kd.kernel({options})\ndef kernel({_PARAMETERS}):\n"
        text = _HEADER + _BARRIERS + head + "\n".join(self.lines) + "\n"
        shape = (self.total, self.grid, self.block, self.shared_bytes)
        return PythonProgram(self.seed, text, *shape, frozenset(self.features))

    def begin(self) -> None:
        """Write what comes first."""
        self.emit("i = kd.grid(1)", "a, b = np.int64(i), x[i]", "c, z = f[i], g[i]")

    def end(self) -> None:
        """Write what comes before the results are stored."""

    def statement(self, depth: int) -> None:
        """Write a statement of the kernel's own level."""
        self.alone(depth)

    def alone(self, depth: int) -> None:
        """Write a statement of one thread; `depth` bounds how deeply it nests."""
        kinds = [self.assign] * 5 + [self.local, self.closure, self.record, self.unpack]
        if depth > 0 and self.loops < 2:
            kinds += [self.branch, self.branch, self.for_else, self.while_else, self.pairs]
            kinds += [self.late]
        self.rng.choice(kinds)(depth)

    def some(self, depth: int) -> None:
        """Write one or two of them, a level deeper."""
        for _ in range(self.rng.choice((1, 1, 2))):
            self.alone(depth - 1)

    def assign(self, depth: int) -> None:
        kind = self.rng.randrange(5)
        if kind == 0:
            self.emit(f"c {self.pick('=', '+=', '-=', '*=')} {self.real(2)}")
        elif kind == 1:
            self.features.add("complex")
            self.emit(f"z = {self.complex()}")
        else:
            op = self.pick("=", "+=", "-=", "^=", "*=")
            self.emit(f"{self.pick('a', 'b')} {op} np.int64({self.integer(2)})")

    def unpack(self, depth: int) -> None:
        call = f"parts({self.integer(1)}, {self.value()})"
        swap = f"a, b = b, np.int64({self.integer(1)})"
        self.emit(self.pick(swap, f"(a, b), c = {call}, {self.real(1)}"))

    def local(self, depth: int) -> None:
        self.features.add("local array")
        name, size, k = self.fresh("h"), self.rng.choice((3, 4, 6)), self.fresh("k")
        cut = self.pick("[1:]", "[::-1]", "[::2]", "[-2:]", "[:2]")
        self.emit(f"{name} = kd.local.array({size}, np.int64)", f"for {k} in range({size}):")
        self.emit(f"    {name}[{k}] = {self.integer(1)} + {k}")
        if self.chance(2):
            self.emit(f"{name}{cut}[0] += {self.integer(1)}")
        element = f"{name}[{self.index(str(size))}]"
        self.emit(f"a += {element} - {name}{cut}.{self.pick('sum', 'min', 'max')}()")

    def closure(self, depth: int) -> None:
        """A function that reads the variables around it, with their values at the call."""
        if self.level > 2:
            return self.assign(depth)
        self.features.add("closure")
        name, own = self.fresh("near"), self.pick("a", "b", "i")
        if self.chance(2):
            self.emit(f"{name} = lambda q: x[(i + q) % x.size] * {own} - q")
        else:
            self.emit(f"def {name}(q):", f"    if q {self.pick('<', '>')} {self.pick('a', 'n')}:")
            self.emit(f"        return {own} - x[q % x.size]", f"    return q * 2 + {own}")
        self.functions.append(name)
        return self.emit(f"{self.pick('a', 'b')} = np.int64({name}({self.integer(1)}))")

    def record(self, depth: int) -> None:
        self.features.add("record")
        self.emit(
            self.pick(
                f"o[i]['a'] {self.pick('=', '+=')} {self.integer(1)}",
                f"o[i]['v'][{self.pick('0', '1', '-1', 'i % 3')}] = {self.real(1)}",
                f"o['v'][i, {self.pick('0', '2')}] = {self.real(1)}",
                f"o[i]['in']['k'] = {self.integer(1)}",
                f"o[i] = r[{self.index('r.size')}]",
                f"o['s'][i] = np.int16(np.int64({self.integer(1)}))",
            )
        )

    def branch(self, depth: int) -> None:
        with self.under(f"if {self.condition()}:"):
            self.some(depth)
        for header in (f"elif {self.condition()}:", "else:"):
            if self.chance(2):
                with self.under(header):
                    self.some(depth)

    def for_else(self, depth: int) -> None:
        k, v = self.fresh("k"), self.value()
        bounds = self.pick("n", "2", "1, n", "5, -2, -3", f"{v} % 4", f"-2, {v} % 3", "0, 7, n")
        with self.under(f"for {k} in range({bounds}):", f"np.int64({k})"):
            self.some(depth)
            self.jump()
        self.last(lambda: self.some(1))

    def while_else(self, depth: int) -> None:
        w = self.fresh("w")
        test = self.pick("< 5", "< n", "!= 9", f"< 4 and ({self.condition()})")
        self.emit(f"{w} = np.int64({self.pick('0', 'n', 'i % 4')})")
        with self.under(f"while {w} {test}:", w):
            self.emit(f"{w} += 1")
            self.some(depth)
            self.jump()
        self.last(lambda: self.some(1))

    def late(self, depth: int) -> None:
        """A tuple and a variable that an iteration reads before it assigns them."""
        self.features.add("late variable")
        k, p, q = self.fresh("k"), self.fresh("p"), self.fresh("q")
        with self.under(f"for {k} in range({self.pick('n', 'm + 2')}):", f"np.int64({k})"):
            test = self.pick(f"{k} > 0", f"{k} > 0 and {p}[0] > {self.value()}")
            self.emit(f"if {test}:", f"    a += {p}[0] - {q}")
            self.some(depth)
            first = f"np.int64({self.integer(1)})"
            self.emit(f"{q} = {self.pick(first, f'({p}[1] if {k} > 0 else {first})')}")
            self.emit(f"{p} = (np.int64({self.integer(1)}), {q} + {k})")

    def last(self, write: Callable[[], None]) -> None:
        """Write the ``else`` of a loop, in half of the cases."""
        if self.chance(2):
            self.features.add("else of a loop")
            with self.under("else:"):
                write()

    def jump(self) -> None:
        if self.chance(2):
            self.emit(f"if {self.condition()}:", f"    {self.pick('break', 'break', 'continue')}")
            self.alone(0)

    def pairs(self, depth: int) -> None:
        k, e = self.fresh("k"), self.fresh("e")
        values = self.pick(
            "enumerate(x[:3])", "zip((1, 2, 4), x)", "((1, a), (3, b))", "zip(range(2, 9), x[::-1])"
        )
        with self.under(f"for {k}, {e} in {values}:", f"np.int64({k})", e):
            self.some(depth)


class _Block(_Thread):
    """Writes what a block does."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.features = {"block kernel"}
        self.block = block = self.rng.choice(_BLOCKS)
        self.threads = math.prod(block)
        self.has_whole_warps = len(block) == 1 and self.threads % 32 == 0
        self.grid = (self.rng.choice((1, 2, 3)) if self.threads < 100 else 1,)
        self.total = self.threads * self.grid[0]
        self.may_return = self.chance(4)
        self.shared = ["s"]

    def begin(self) -> None:
        n = self.threads
        self.emit(f"t = {_NUMBER}", f"i = kd.blockIdx.x * {n} + t")
        # The oracle distinguishes shared arrays by their lines.
        self.emit(f"s = kd.shared.array({n}, np.int64)", f"sr = kd.shared.array({n}, R)")
        self.emit("bins = kd.shared.array(8, np.int64)")
        self.values.append("t")
        if self.chance(2):
            self.features.add("dynamic shared memory")
            self.emit(f"d = kd.shared.array(0, np.int64)[:{n}]")
            self.emit(f"e = kd.shared.array(0, np.int32)[{2 * n}:]")
            self.emit("d[t], e[t] = i, np.int32(t * 5)")
            self.shared.append("d")
            self.values.append("np.int64(e[t])")
            self.shared_bytes = 12 * n
        self.emit("s[t] = x[i]", "kd.syncthreads()")
        self.emit("a, b = np.int64(i), x[i]", "c, z = f[i], g[i]")
        if self.may_return:
            self.features.add("early return")
            self.emit("out[i] = real[i] = whole[i] = 0", f"if {self.condition()}:", "    return")

    def end(self) -> None:
        """Hand values to other blocks, in some kernels."""
        if self.may_return or not self.chance(3):
            return
        self.features.add("grid barrier")
        header = self.pick("for p in range(n):", "if n > 2:", "if m < 9:")
        with self.under(header):
            other = self.pick("-1 - i", "(i + 3) % x.size", "0")
            self.emit("passed[i] = a", "kd.grid_group().sync()", f"b += passed[{other}]")
            self.together(2)
            self.emit("kd.grid_group().sync()")
        self.together(1)

    def statement(self, depth: int) -> None:
        self.together(depth)

    def together(self, depth: int) -> None:
        """Write a statement of the whole block."""
        kinds = [self.exchange] * 4 + [self.chosen, self.votes, self.alone]
        if not self.may_return:
            kinds += [self.call, self.shared_records, self.atomics]
            if self.has_whole_warps:
                kinds += [self.grouped] * 2
        if depth > 0:
            kinds += [self.uniform_for, self.uniform_for, self.uniform_while, self.uniform_if]
        self.rng.choice(kinds)(depth)

    def some_together(self, depth: int) -> None:
        for _ in range(self.rng.choice((1, 1, 2))):
            self.together(depth - 1)

    def exchange(self, depth: int) -> None:
        s, n = self.rng.choice(self.shared), self.threads
        other = self.pick(
            f"(t + {self.rng.randrange(1, n + 1)}) % {n}",
            *(f"{n - 1} - t", f"(t ^ 1) % {n}", "-1 - t", f"(t // 2 * 2) % {n}", "0"),
            f"abs(a) % {n}",
        )
        self.emit(f"{s}[t] {self.pick('=', '+=')} {self.integer(1)}", "kd.syncthreads()")
        self.emit(f"{self.pick('a', 'b')} {self.pick('=', '+=')} {s}[{other}]", "kd.syncthreads()")

    def call(self, depth: int) -> None:
        self.features.add("barriers in a function")
        s, n = self.rng.choice(self.shared), self.threads
        function = self.pick("search", "rotate")
        self.emit(f"{s}[t] = {self.integer(1)}")
        self.emit(f"b += {function}({s}, t, {n}, {self.rng.randrange(1, 7)})", "kd.syncthreads()")

    def votes(self, depth: int) -> None:
        self.emit(f"a += kd.syncthreads_{self.pick('count', 'and', 'or')}({self.condition()})")

    def shared_records(self, depth: int) -> None:
        self.features.add("shared records")
        n, k = self.threads, self.pick("1", "-1", "i % 3")
        self.emit(f"sr[t] = r[{self.index('r.size')}]", f"sr[t]['a'] = {self.integer(1)}")
        self.emit(f"sr[t]['v'][1] = {self.real(1)}", "kd.syncthreads()")
        self.emit(f"b -= sr[{n - 1} - t]['a'] + sr[(t + 1) % {n}]['in']['k']")
        self.emit(f"c += sr[{n - 1} - t]['v'][{k}]", f"o[i] = sr[(t + 3) % {n}]")
        self.emit("kd.syncthreads()")

    def atomics(self, depth: int) -> None:
        """Ranks among the threads with a key: their set, not their order, is known."""
        self.features.add("atomic with a result")
        k, rank = self.fresh("k"), self.fresh("rank")
        use = self.pick(
            f"kd.atomic.add(bins, 4 + {rank} % 4, {rank} * {rank})",
            f"kd.atomic.max(bins, 5, {rank} + 1)",
        )
        self.emit("kd.syncthreads()", f"for {k} in range(t, 8, {self.threads}):")
        self.emit(f"    bins[{k}] = 0", "kd.syncthreads()")
        self.emit(f"{rank} = kd.atomic.add(bins, {self.integer(1)} % 4, 1)", use)
        self.emit("kd.syncthreads()", f"a += bins[{self.value()} % 8] * 3 + bins[2]")
        self.emit("kd.syncthreads()")

    def chosen(self, depth: int) -> None:
        """Some threads store in a loop, and all read then."""
        s, k = self.rng.choice(self.shared), self.fresh("k")
        self.emit(f"if {self.condition()}:", f"    for {k} in range(t % 3, {self.pick('3', 'n')}):")
        self.emit(f"        {s}[t] = {s}[t] * 2 + {k}", "kd.syncthreads()")
        self.emit(f"b += {s}[{self.threads - 1} - t]", "kd.syncthreads()")

    def grouped(self, depth: int) -> None:
        self.features.add("groups")
        v, full = f"np.int64({self.integer(1)})", "0xFFFFFFFF"
        of_block = self.pick("sum", "max", "min", "inclusive_scan", "exclusive_scan", "sort")
        call = self.pick(
            f"block.{of_block}({v})",
            f"warp.{self.pick('sum', 'max', 'inclusive_scan', 'sort')}({v})",
            f"shfl_{self.pick('up', 'down', 'xor')}_sync({full}, {v}, {self.pick('1', '5', '16')})",
            f"shfl_sync({full}, {v}, t * 5 + 1)",
            f"reduce_add_sync({full}, {v})",
            f"block.exchange({v}, (t * 3 + 1) % {self.threads})",
            f"popc(kd.ballot_sync({full}, {self.condition()}) & 0xFFFF)",
        )
        self.emit(f"b += np.int64(kd.{call})")

    # -- branches and loops of the block ---------------------------------------------------------
    def uniform_test(self) -> str:
        return self.pick("n > 2", "kd.blockIdx.x % 2 == 0", "n % 2 == 1", "m == 1")

    def uniform_if(self, depth: int) -> None:
        with self.under(f"if {self.uniform_test()}:"):
            self.some_together(depth)
        if self.chance(2):
            with self.under("else:"):
                self.some_together(depth)

    def uniform_for(self, depth: int) -> None:
        k = self.fresh("k")
        values = self.pick("range(n)", "range(m, 4)", "(1, 2, 4)", "range(3, -2, -2)")
        with self.under(f"for {k} in {values}:", f"np.int64({k})"):
            self.some_together(depth)
            self.uniform_jump(f"{k} == {self.pick('1', 'm')}")
        self.last(lambda: self.together(0))

    def uniform_while(self, depth: int) -> None:
        self.features.add("while with barriers")
        w = self.fresh("w")
        self.emit(f"{w} = np.int64({self.pick('0', 'm', 'kd.blockIdx.x', '1')})")
        step = self.pick(f"{w} += 1", f"{w} = {w} * 2 + 1")
        is_first = self.chance(2)
        with self.under(f"while {w} < {self.pick('3', 'n', '4')}:", w):
            if is_first:
                self.emit(step)
            self.some_together(depth)
            if is_first:
                self.uniform_jump(f"{w} == 2")
            else:
                self.emit(step)
        self.last(lambda: self.together(0))

    def uniform_jump(self, test: str) -> None:
        if self.chance(2):
            self.emit(f"if {self.pick(test, self.uniform_test())}:")
            self.emit(f"    {self.pick('break', 'continue')}")
            self.together(0)
