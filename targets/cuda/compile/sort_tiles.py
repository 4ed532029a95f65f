"""Sort tiles that are spread over threads, by a bitonic network in registers and shared memory.

A *chunk* is as many elements as a thread has in registers at a time: neighbours along some bits of
their indices. A pass reads the chunks, compares along those bits, and writes them back; the passes
of a phase go from the high bits of an index to the low ones, and merge runs into runs of twice the
length. Every second run is to be in falling order: its elements are complemented meanwhile, so that
all comparisons have the smaller element first.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from kerneldsl.analysis.tile_shapes import Shape
from kerneldsl.frontend.syntax import assign, call, load, store
from kerneldsl.lowering.tile_sorts import key_dtype
from targets.cuda.compile.sort_networks import MAX_CHUNK_BITS
from targets.cuda.compile.tile_lanes import WARP_SIZE
from targets.cuda.compile.tile_memory import plus, times

if TYPE_CHECKING:
    from targets.cuda.compile.spread_tiles import TileSpreader

__all__ = ["Key", "SortSpreader"]

#: Writes what belongs to an element: given its number in the tile, and its slot in its thread.
Key: TypeAlias = Callable[[ast.expr, ast.expr], ast.expr]
#: Bits of a lane's index.
_LANE_BITS = 5


class SortSpreader:
    """Writes the sort of one tile along its last axis.

    Parameters
    ----------
    spreader : TileSpreader
        Writes elements, loops and declarations.
    shape : Shape
        Of the tile.
    dtype : str
        Of its elements.
    key : str or None
        Dtype of the integers that are sorted, if not of those for the elements.
    """

    def __init__(
        self, spreader: TileSpreader, shape: Shape, dtype: str, key: str | None = None
    ) -> None:
        self._spreader = spreader
        self._shape = shape
        self._dtype = dtype
        self._key = key or key_dtype(dtype)
        self._rows, self._columns = (1, *shape)[-2:]
        self._threads = spreader.plan.threads
        #: Bits of an index in a row, whose extent is made a power of two.
        self.bits = (self._columns - 1).bit_length()
        self._chunk_bits = self._choose_chunk_bits()
        self._chunk = 1 << self._chunk_bits
        self._row_chunks = 1 << (self.bits - self._chunk_bits)
        self._room = self._own = ""

    def write(self, target: str, node: ast.expr) -> list[ast.stmt]:
        """Return the statements that give the target the sorted elements."""

        def key(index: ast.expr, slot: ast.expr) -> ast.expr:
            return self.key_of(node, index, slot)

        def number(key: ast.expr) -> ast.expr:
            return call(f"kd_sort_number_{self._dtype}", key)

        if self.bits == 0:
            return self.written(target, lambda index, slot: number(key(index, slot)))
        self.declare()
        out = self.sorted(key)
        out += self.written(target, lambda index, slot: number(self.sorted_key(index)))
        return [*out, *self.released(target)]

    def declare(self) -> None:
        """Declare the arrays in which integers are sorted."""
        spreader = self._spreader
        self._room, self._own = spreader.names.make("room"), spreader.names.make("own")
        row = self._padded(1 << self.bits)
        spreader.array(self._room, "shared", self._rows * row, self._key)
        spreader.array(self._own, "local", self._chunk, self._key)

    def sorted(self, key: Key) -> list[ast.stmt]:
        """Return the statements that sort integers, which :meth:`sorted_key` reads then."""
        out = self._begun(key)
        if self.bits > self._chunk_bits:
            out.append(self._phases())
        return [*out, self._spreader.wait()]

    def sorted_key(self, index: ast.expr) -> ast.expr:
        """Return the integer that comes at a place, counted along the last axis first."""
        place: ast.expr = self._padded_place(index)
        if self._rows > 1:
            line = ast.BinOp(index, ast.FloorDiv(), ast.Constant(self._columns))
            row = self._padded(1 << self.bits)
            place = plus(times(line, row), self._padded_place(self.column(index)))
        return self._spreader.at(self._room, place)

    def column(self, index: ast.expr) -> ast.expr:
        """Return the place of an element in its row."""
        if self._rows == 1:
            return index
        return ast.BinOp(index, ast.Mod(), ast.Constant(self._columns))

    def released(self, target: str) -> list[ast.stmt]:
        """Let threads wait where others may still read what is written next."""
        spreader = self._spreader
        is_needed = target in spreader.shared or spreader.loop_depth
        return [spreader.wait()] if is_needed else []

    # -- sizes ------------------------------------------------------------------------------------

    def _choose_chunk_bits(self) -> int:
        """Return how many bits a chunk has: many, as long as a quarter of the threads has one."""
        elements = self._rows << self.bits
        most = min(MAX_CHUNK_BITS, self.bits)
        return next(
            (n for n in range(most, 1, -1) if 4 * (elements >> n) >= self._threads), most and 1
        )

    def _padded(self, place: int) -> int:
        """Return where an index is in shared memory: a chunk's neighbours are in another bank."""
        return place + (place >> self._chunk_bits)

    def _padded_place(self, place: ast.expr) -> ast.expr:
        return plus(place, ast.BinOp(place, ast.RShift(), ast.Constant(self._chunk_bits)))

    def _low_bit(self, group: int) -> int:
        """Return the lowest bit of the indices along which a pass has its chunks."""
        return min(group * self._chunk_bits, self.bits - self._chunk_bits)

    def _is_of_warps(self, *low_bits: int) -> bool:
        """Return whether passes with these chunks exchange elements within warps alone."""
        if self._threads % WARP_SIZE:
            return False
        return self._row_chunks <= WARP_SIZE or max(low_bits) <= _LANE_BITS

    # -- elements ---------------------------------------------------------------------------------

    def key_of(self, node: ast.expr, index: ast.expr, slot: ast.expr) -> ast.expr:
        """Return the integer by which an element is sorted."""
        element = self._spreader.element(node, self._shape, index, slot)
        return call("kd_sort_key", call(f"kd_as_{self._dtype}", element))

    def written(self, target: str, number: Key) -> list[ast.stmt]:
        """Return the statements that give the target its elements."""
        spreader = self._spreader

        def write(index: ast.expr, slot: ast.expr, at: ast.expr) -> list[ast.stmt]:
            place = index if target in spreader.shared else slot
            return [spreader.set(target, place, number(index, slot))]

        return spreader.slots(spreader.plan.layout(self._shape), write)

    def _begun(self, key: Key) -> list[ast.stmt]:
        """Sort every chunk."""
        spreader = self._spreader
        layout = spreader.plan.layout(self._shape)
        slots = layout.rounds * layout.group
        is_own = self._rows == 1 and self._chunk == slots
        if is_own and self._chunk * self._threads == 1 << self.bits == self._columns:
            # What a thread has anyway is a chunk: nobody asks where its elements came from.
            def take(index: ast.expr, slot: ast.expr, at: ast.expr) -> list[ast.stmt]:
                return [spreader.set(self._own, slot, key(index, slot))]

            taken = spreader.slots(layout, take)
            body = self._pass(0, [self._sorted_chunk()], ast.Constant(self._chunk_bits), taken)
            return [*body, self._sync(0, self._low_bit(1))]

        def put(index: ast.expr, slot: ast.expr, at: ast.expr) -> list[ast.stmt]:
            if self._rows == 1:
                # Any place will do, and neighbouring threads do best at neighbouring places.
                place = plus(times(slot, self._threads), load(spreader.thread))
                place = self._padded_place(place)
            else:
                column = ast.BinOp(index, ast.Mod(), ast.Constant(self._columns))
                line = ast.BinOp(index, ast.FloorDiv(), ast.Constant(self._columns))
                row = self._padded(1 << self.bits)
                place = plus(times(line, row), self._padded_place(column))
            return [spreader.set(self._room, place, key(index, slot))]

        out = spreader.slots(layout, put)
        missing = (1 << self.bits) - self._columns
        if missing:
            out.append(self._filled(missing))
        out.append(spreader.wait())
        body = self._pass(0, [self._sorted_chunk()], ast.Constant(self._chunk_bits))
        return [*out, *body, self._sync(0, self._low_bit(1))]

    def _filled(self, missing: int) -> ast.stmt:
        """Put the last of all integers where a row has no element."""
        spreader = self._spreader
        number = spreader.names.make("number")
        line = ast.BinOp(load(number), ast.FloorDiv(), ast.Constant(missing))
        column = plus(
            ast.BinOp(load(number), ast.Mod(), ast.Constant(missing)), ast.Constant(self._columns)
        )
        place = plus(times(line, self._padded(1 << self.bits)), self._padded_place(column))
        last = call(f"kd_as_{self._key}", ast.Constant(-1))
        bounds = (ast.Constant(self._rows * missing), ast.Constant(self._threads))
        each = call("kd_range", load(spreader.thread), *bounds)
        return ast.For(store(number), each, [spreader.set(self._room, place, last)], [])

    # -- passes -----------------------------------------------------------------------------------

    def _phases(self) -> ast.stmt:
        """Merge runs of ever more elements; the loop's variable is the bits of a merged run."""
        phase = self._spreader.names.make("phase")
        groups = (self.bits - 1) // self._chunk_bits
        body: list[ast.stmt] = []
        for group in range(groups, 0, -1):
            low, first = self._low_bit(group), group * self._chunk_bits
            steps: list[ast.stmt] = [
                ast.If(
                    ast.Compare(load(phase), [ast.Gt()], [ast.Constant(low + bit)]),
                    [self._merged_chunk(bit)],
                    [],
                )
                for bit in range(self._chunk_bits - 1, first - low - 1, -1)
            ]
            done = [*self._pass(low, steps), self._sync(low, self._low_bit(group - 1))]
            is_wanted = ast.Compare(load(phase), [ast.Gt()], [ast.Constant(first)])
            body.append(ast.If(is_wanted, done, []))
        last: list[ast.stmt] = [
            self._merged_chunk(bit) for bit in range(self._chunk_bits - 1, -1, -1)
        ]
        body += self._pass(0, last, load(phase))
        body.append(self._sync_of_phase(phase, groups))
        bounds = (ast.Constant(self._chunk_bits + 1), ast.Constant(self.bits + 1))
        return ast.For(store(phase), call("kd_range", *bounds), body, [])

    def _sync_of_phase(self, phase: str, groups: int) -> ast.stmt:
        """Let threads wait for what the first pass of the next phase reads."""
        lows = {group: self._low_bit(group) for group in range(1, groups + 1)}
        wide = [group for group, low in lows.items() if not self._is_of_warps(0, low)]
        if not wide:
            return self._sync(0, 0)
        # The next phase begins with such a pass if it has one more bit than those below.
        first = ast.Constant(wide[0] * self._chunk_bits)
        is_wide = ast.Compare(load(phase), [ast.GtE()], [first])
        return ast.If(is_wide, [self._spreader.wait()], [self._sync(0, 0)])

    def _sync(self, *low_bits: int) -> ast.stmt:
        """Let threads wait for each other between two passes."""
        word = "syncwarp" if self._is_of_warps(*low_bits) else "syncthreads"
        mask = [ast.Constant(0xFFFFFFFF)] if word == "syncwarp" else []
        return ast.Expr(self._spreader.use(word, *mask))

    def _sorted_chunk(self) -> ast.stmt:
        return ast.Expr(call(f"kd_sort_{self._chunk}", load(self._own)))

    def _merged_chunk(self, bit: int) -> ast.stmt:
        return ast.Expr(call(f"kd_merge_{self._chunk}_{bit}", load(self._own)))

    def _pass(
        self,
        low: int,
        steps: Sequence[ast.stmt],
        phase: ast.expr | None = None,
        taken: Sequence[ast.stmt] = (),
    ) -> list[ast.stmt]:
        """Return what every thread does with its chunks.

        `phase` is given for a pass at the end of a phase, whose elements are complemented for the
        next one; a constant one is the first. `taken` puts a thread's only chunk into registers
        where it is not read from shared memory.
        """
        spreader, names = self._spreader, self._spreader.names
        number, chunk, start, slot = (
            names.make(stem) for stem in ("number", "chunk", "start", "slot")
        )
        inner = ast.BinOp(load(number), ast.Mod(), ast.Constant(self._row_chunks))
        body: list[ast.stmt] = [assign(chunk, inner if self._rows > 1 else load(number))]
        body.append(assign(start, self._start(number, chunk, low)))
        offset = ast.BinOp(load(slot), ast.LShift(), ast.Constant(low))
        where = plus(load(start), self._padded_place(offset))
        own = spreader.at(self._own, load(slot))
        written: ast.expr = own

        def each_slot(statement: ast.stmt) -> ast.stmt:
            return spreader.unrolled(slot, self._chunk, [statement])

        if taken:
            body += taken
        else:
            read = spreader.set(self._own, load(slot), spreader.at(self._room, where))
            body.append(each_slot(read))
        if phase is not None and self.bits > self._chunk_bits:
            bit = ast.BinOp(phase, ast.Sub(), ast.Constant(self._chunk_bits))
            flip = names.make("flip")
            if isinstance(phase, ast.Constant):
                body.append(assign(flip, self._complement(chunk, bit)))
                changed = ast.BinOp(own, ast.BitXor(), load(flip))
                body.append(each_slot(spreader.set(self._own, load(slot), changed)))
            following = self._complement(chunk, plus(bit, ast.Constant(1)))
            both = ast.BinOp(self._complement(chunk, bit), ast.BitXor(), following)
            body.append(assign(flip, both))
            written = ast.BinOp(own, ast.BitXor(), load(flip))
        body += steps
        body.append(each_slot(spreader.set(self._room, where, written)))
        return self._each_chunk(number, body)

    def _start(self, number: str, chunk: str, low: int) -> ast.expr:
        """Return the place of a chunk's first element in shared memory."""
        high = ast.BinOp(load(chunk), ast.RShift(), ast.Constant(low))
        first: ast.expr = times(high, 1 << (low + self._chunk_bits))
        if low:
            below = ast.BinOp(load(chunk), ast.BitAnd(), ast.Constant((1 << low) - 1))
            first = plus(first, below)
        place = self._padded_place(first)
        if self._rows > 1:
            line = ast.BinOp(load(number), ast.FloorDiv(), ast.Constant(self._row_chunks))
            place = plus(times(line, self._padded(1 << self.bits)), place)
        return place

    def _each_chunk(self, number: str, body: list[ast.stmt]) -> list[ast.stmt]:
        """Return what is done for each of a thread's chunks."""
        thread, chunks = load(self._spreader.thread), self._rows * self._row_chunks
        if chunks > self._threads:
            bounds = (ast.Constant(chunks), ast.Constant(self._threads))
            return [ast.For(store(number), call("kd_range", thread, *bounds), body, [])]
        alone = [assign(number, thread), *body]
        if chunks == self._threads:
            return alone
        return [ast.If(ast.Compare(thread, [ast.Lt()], [ast.Constant(chunks)]), alone, [])]

    def _complement(self, chunk: str, bit: ast.expr) -> ast.expr:
        """Return all ones where a bit of the chunk's number is set, else zero."""
        is_set = ast.BinOp(ast.BinOp(load(chunk), ast.RShift(), bit), ast.BitAnd(), ast.Constant(1))
        return call(f"kd_as_{self._key}", ast.UnaryOp(ast.USub(), is_set))
