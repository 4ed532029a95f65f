"""Runs the code of warpgroups on the host: barriers, copies of boxes, and products.

A product reads its factors when the thread waits for it. Copies are made when they begin, or, with
`is_reversed`, when a thread waits for them, the newest first. So a slot of the ring that is read
before it is full, or written before it is free, gives a wrong result.
"""

from __future__ import annotations

import ctypes
import operator
import re
import struct
from collections import Counter
from collections.abc import Callable
from itertools import chain, product
from typing import Any

import llvmlite.binding as llvm
import ml_dtypes
import numpy as np

from kerneldsl.contract import Specialization
from kerneldsl.contract.tensor_maps import MAP_DTYPES
from targets.cuda.architectures import parse_arch
from targets.cuda.compile.compiler import lower_kernel
from targets.cuda.compile.mma.wgmma import Instruction, Wait, find_function
from targets.null.native import with_maps
from tests.support import device_threads
from tests.support.device_threads import _Block, _callback, _flat, _give, _symbol

__all__ = ["simulate_warpgroups"]

_RING = re.compile(r'@"(kd_matrix_shared_(\d+))" = external *global \[0 x i8\]')
_LOW_BITS, _WARPGROUP = 18, 128
_ROW_BYTES = 128
#: Bytes of an element by its number in a map.
_MAP_SIZES = {
    number: np.dtype(getattr(ml_dtypes, name, name)).itemsize for name, number in MAP_DTYPES.items()
}
#: Polls without progress after which no thread will go on.
_MOST_POLLS = 5_000


def simulate_warpgroups(
    specialization: Specialization,
    grid: tuple[int, ...],
    args: tuple[Any, ...],
    *,
    is_reversed: bool = False,
) -> None:
    """Run a kernel on NumPy arrays, in place."""
    lowered = lower_kernel(specialization, parse_arch("sm_90a"))
    assert lowered.additions.threads, lowered.remarks
    assert specialization.block_dim is not None
    width, *others = specialization.block_dim
    run = _Ring((width + lowered.additions.threads, *others), is_reversed=is_reversed)
    texts = [_text(text) for text in (lowered.entry_text, *lowered.body_texts)]
    (ring,) = re.findall(r"@\"(kd_matrix_shared_\d+)\" = global", texts[0])
    declared = {each for text in texts for each in device_threads._DECLARED.findall(text)}
    kept = [
        (one or two, run.function(result, one or two, given))
        for result, one, two, given in declared
    ]
    for name, callback in kept:
        llvm.add_symbol(_symbol(name), ctypes.cast(callback, ctypes.c_void_p).value)
    engine = device_threads._compiled(texts)
    run.base = engine.get_global_value_address(ring)
    layout, maps = specialization.layout, lowered.additions.tensor_maps
    flat = list(_flat(specialization, args))
    packed = with_maps(layout.packer.pack(*flat), layout, maps)
    rooms = [ctypes.create_string_buffer(packed[-128 * n :][:128]) for n in range(len(maps), 0, -1)]
    kinds = [device_threads._C_TYPES[each.dtype] for each in layout.parameters]
    kind = ctypes.CFUNCTYPE(None, *kinds, *[ctypes.c_void_p] * len(maps))
    entry = kind(engine.get_function_address(lowered.entry_name))
    flat += [ctypes.addressof(room) for room in rooms]
    grid_dim = (*grid, 1, 1)[:3]
    for z, y, x in product(*map(range, grid_dim[::-1])):
        run.run(lambda: entry(*flat), grid_dim, (x, y, z))


def _text(text: str) -> str:
    text = device_threads._SPACE.sub("", text).replace("__nv_exp2f", "exp2f")
    text = _RING.sub(r'@"\1" = global [\2 x i8] zeroinitializer', text)
    return device_threads._numbered(re.sub(r"byval\(\[128 x i8\]\) ", "", text))


class _Barrier:
    def __init__(self, arrivals: int) -> None:
        self.arrivals = self.pending = arrivals
        self.bytes = self.phase = 0

    def change(self, *, arrived: int = 0, nbytes: int = 0) -> None:
        """Count arrivals, and bytes that are expected or there."""
        self.pending -= arrived
        self.bytes += nbytes
        assert self.pending >= 0, "more threads arrive at a barrier than it is for"
        if self.pending == self.bytes == 0:
            self.pending = self.arrivals
            self.phase += 1


class _Ring(_Block):
    """A block with barriers in shared memory, and copies that are on their way."""

    def __init__(self, block_dim: tuple[int, ...], *, is_reversed: bool) -> None:
        super().__init__(block_dim, is_reversed=is_reversed)  # type: ignore[arg-type]
        self._late = is_reversed
        #: Address of the ring.
        self.base = 0
        self._barriers: dict[int, _Barrier] = {}
        self._copies: list[Callable[[], None]] = []
        #: What a thread multiplies, and how much it has multiplied before. It is in groups, the
        #: last of which is not complete.
        self._products: dict[int, list[list[tuple[Instruction, int, tuple[int, ...], int]]]] = {}
        self._counts: dict[int, int] = {}
        #: Factors by thread and number, as other threads have them in registers.
        self._own: dict[tuple[int, int], tuple[int, ...]] = {}
        #: Copies to arrays by the thread that began them, in groups. The last one is not complete.
        self._stores: dict[int, list[list[Callable[[], None]]]] = {}
        #: How often each thread has told copies what it wrote, and its warpgroup has begun one.
        self._shown: dict[int, int] = {}
        self._boxes: dict[int, int] = {}
        self._polls = 0
        #: Threads that have arrived at a barrier for which they do not wait.
        self._arrived: Counter[int] = Counter()

    def run(self, call: Callable[[], None], grid_dim: Any, place: Any) -> None:
        self._barriers.clear()
        self._products.clear()
        self._counts.clear()
        self._own.clear()
        for each in (self._stores, self._shown, self._boxes):
            each.clear()
        self._arrived.clear()
        super().run(call, grid_dim, place)
        assert not self._copies, "a block ends before its copies are there"
        assert not any(map(any, self._stores.values())), "a block ends before copies have read it"

    def function(self, result: str, name: str, arguments: str) -> Any:
        """Return what a function of the device is on the host."""
        words = [each.split()[0] for each in arguments.split(",") if each.strip()]
        call: Callable[..., Any]
        match name.split("."):
            case ["mbarrier", "init", *_]:
                call = self._initialize
            case ["mbarrier", "try", *_]:
                call = self._wait
            case ["mbarrier", "arrive", "expect", *_]:
                call = lambda at, nbytes: self._barriers[at].change(arrived=1, nbytes=nbytes) or 0
            case ["mbarrier", "arrive", *_]:
                call = lambda at, count: self._barriers[at].change(arrived=count) or 0
            case ["cp", "async", "bulk", "tensor", "s2g", *_]:
                call = self._store
            case ["cp", "async", "bulk", "commit", *_]:
                call = lambda: self._stores_of_thread().append([])
            case ["cp", "async", "bulk", "wait", *_]:
                call = self._wait_for_stores
            case ["barrier", "cta", "arrive", *_]:
                call = lambda at, count: self._arrived.update([at])
            case ["cp", "async", "bulk", *_]:
                call = self._copy
            case ["fence", "proxy", "async", *_]:
                call = self._show_to_copies
            case ["wgmma", word, *_] if word.startswith("commit"):
                call = lambda: self._groups().append([])
            case ["setmaxnreg" | "fence" | "griddepcontrol" | "prefetch" | "wgmma", *_]:
                call = lambda *given: None
            case ["matrix_store_pair"]:
                call = lambda at, *pair: ctypes.memmove(at, struct.pack("2i", *pair), 8) and None
            case [word] if word.startswith("warpgroup_"):
                found = find_function(word)
                call = self._waiting(found) if isinstance(found, Wait) else self._multiplying(found)
            case _:
                return _callback(self, result, name, arguments)
        kinds = [device_threads._LLVM_TYPES[each] for each in words]
        return ctypes.CFUNCTYPE(device_threads._LLVM_TYPES[result], *kinds)(self._checked(call))

    def _checked(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function after whose first error all threads run to their end."""

        def checked(*given: Any) -> Any:
            if self._errors:
                return 1
            try:
                return call(*given)
            except Exception as error:  # noqa: BLE001 - reported by the thread that started it
                self._errors.append(error)
                return 1

        return checked

    def _meet(self) -> None:
        """Let threads go on that are all at a barrier of so many threads."""
        named: dict[int, list[Any]] = {}
        for each in self._threads:
            if not each.is_done and each.waiting and each.waiting[0].endswith(".count"):
                named.setdefault(each.given[0], []).append(each)
        for number, threads in named.items():
            if len(threads) + self._arrived[number] == threads[0].given[1]:
                self._arrived[number] = 0
                _give(threads)
        super()._meet()

    # -- barriers ---------------------------------------------------------------------------------

    def _initialize(self, at: int, arrivals: int) -> None:
        assert at % 8 == 0
        self._barriers[at] = _Barrier(arrivals)

    def _wait(self, at: int, parity: int) -> bool:
        barrier = self._barriers[at]
        if barrier.phase & 1 != parity:
            self._polls = 0
            return True
        if self._copies:
            self._copies.pop()()
            self._polls = 0
        self._polls += 1
        assert self._polls < _MOST_POLLS, f"no one completes {at - self.base}: {self._state()}"
        self.exchange("activemask.poll", 0, ())
        return barrier.phase & 1 != parity

    def _state(self) -> dict[int, tuple[int, int, int]]:
        found = self._barriers.items()
        return {at - self.base: (each.pending, each.bytes, each.phase) for at, each in found}

    # -- copies -----------------------------------------------------------------------------------

    def _copy(self, target: int, at: int, map_at: int, *given: int) -> None:
        address, dtype, rank, swizzle, extents, strides, box = _map_at(map_at)
        assert swizzle == 3 or (swizzle == 0 and box[1] == 1)
        assert target % (1024 if swizzle else 128) == 0
        column, row, *others = given[:rank]
        size = _MAP_SIZES[dtype]
        row_bytes = box[0] * size
        assert row_bytes == _ROW_BYTES or not swizzle
        address += sum(map(operator.mul, others, strides[1:]))
        is_inside = all(0 <= each < extents[2 + n] for n, each in enumerate(others))

        def copy() -> None:
            for number in range(box[1]):
                line = np.zeros(row_bytes, np.uint8)
                first, last = max(column, 0), min(column + box[0], extents[0])
                if is_inside and 0 <= row + number < extents[1] and first < last:
                    source = address + (row + number) * strides[0] + first * size
                    found = _memory(source, (last - first) * size)
                    start = (first - column) * size
                    line[start : start + len(found)] = found
                places = target + number * row_bytes + np.arange(row_bytes)
                places = _exchanged(places) if swizzle else places
                _memory(target, box[1] * row_bytes)[places - target] = line
            self._barriers[at].change(nbytes=-box[1] * row_bytes)

        if self._late:
            self._copies.append(copy)
        else:
            copy()

    def _stores_of_thread(self) -> list[list[Callable[[], None]]]:
        return self._stores.setdefault(self.current.number, [[]])

    def _show_to_copies(self) -> None:
        self._shown[self.current.number] = self._shown.get(self.current.number, 0) + 1

    def _wait_for_stores(self, pending: int) -> None:
        """Make the copies of all but the last groups of the thread."""
        groups = self._stores_of_thread()
        done = groups[: max(0, len(groups) - 1 - pending)]
        del groups[: len(done)]
        for each in chain.from_iterable(done):
            each()

    def _store(self, source: int, map_at: int, *given: int) -> None:
        """Begin to copy a box to an array; it is read at once, or when the thread waits for it."""
        address, _, rank, swizzle, extents, strides, box = _map_at(map_at)
        assert swizzle == 3
        assert source % 1024 == 0
        column, row, *others = given[:rank]
        warpgroup = self.current.number // _WARPGROUP
        number = self._boxes[warpgroup] = self._boxes.get(warpgroup, 0) + 1
        threads = range(warpgroup * _WARPGROUP, (warpgroup + 1) * _WARPGROUP)
        told = all(self._shown.get(each, 0) >= number for each in threads)
        assert told, "a copy does not see what a thread has written"
        size = _ROW_BYTES // box[0]
        address += sum(map(operator.mul, others, strides[1:]))
        is_inside = all(0 <= each < extents[2 + n] for n, each in enumerate(others))

        def copy() -> None:
            for number in range(box[1]):
                first, last = max(column, 0), min(column + box[0], extents[0])
                if is_inside and 0 <= row + number < extents[1] and first < last:
                    places = _exchanged(source + number * _ROW_BYTES + np.arange(_ROW_BYTES))
                    line = _memory(source, box[1] * _ROW_BYTES)[places - source]
                    start, count = (first - column) * size, (last - first) * size
                    target = address + (row + number) * strides[0] + first * size
                    _memory(target, count)[:] = line[start : start + count]

        if self._late:
            self._stores_of_thread()[-1].append(copy)
        else:
            copy()

    # -- products ---------------------------------------------------------------------------------

    def _groups(self) -> list[list[tuple[Instruction, int, tuple[int, ...], int]]]:
        return self._products.setdefault(self.current.number, [[]])

    def _multiplying(self, found: Instruction) -> Callable[..., None]:
        def call(registers: int, *factors: int) -> None:
            thread = self.current.number
            number = self._counts[thread] = self._counts.get(thread, 0) + 1
            self._groups()[-1].append((found, registers, factors, number))
            self._own[thread, number] = factors

        return call

    def _waiting(self, wait: Wait) -> Callable[..., None]:
        def call(registers: int, *words: int) -> None:
            warpgroup = self.current.number // _WARPGROUP
            self.exchange(f"warpgroup{warpgroup}.count", -1, (~warpgroup, _WARPGROUP))
            groups = self._groups()
            done = groups[: max(0, len(groups) - 1 - wait.pending)]
            del groups[: len(done)]
            for found, place, factors, number in chain.from_iterable(done):
                assert registers <= place < registers + 4 * wait.count
                self._multiply(found, place, factors, number)
                is_kept = not found.has_own_rows or set(words).issuperset(factors[:4])
                assert is_kept, "registers change while they are read"

        return call

    def _multiply(
        self, found: Instruction, registers: int, factors: tuple[int, ...], number: int
    ) -> None:
        """Compute the results of one thread."""
        thread, form = self.current.number, found.form
        warp, lane = thread // 32 % 4, thread % 32
        row, place = 16 * warp + lane // 4, lane % 4
        kind = np.int32 if str(form.register) == "i32" else np.float32
        results = _memory(registers, 4 * found.count).view(kind)
        rows = np.array([row, row + 8])
        columns = np.add.outer(8 * np.arange(found.columns // 8), [2 * place, 2 * place + 1])
        if found.has_own_rows:
            a = self._own_rows(form, number)
        else:
            a = self._factor(form, factors[0], rows, form.dtypes[0], found.exchanged[0])
        b = self._factor(form, factors[-1], columns.ravel(), form.dtypes[1], found.exchanged[1])
        products = (a @ b.T).reshape(2, -1, 2).transpose(1, 0, 2).ravel()
        before = results if found.adds else np.zeros_like(results)
        results[:] = before + products.astype(kind)

    def _own_rows(self, form: Any, number: int) -> Any:
        """Return two rows of a factor in the registers of four threads."""
        thread = self.current.number
        words = [self._own[thread & ~3 | lane, number][:4] for lane in range(4)]
        kind = np.dtype(getattr(ml_dtypes, form.dtypes[0], form.dtypes[0]))
        # By thread, then halves of the columns, halves of the rows, and pairs.
        found = np.array(words, np.int64).astype(np.uint32).view(kind).reshape(4, 2, 2, 2)
        return found.transpose(2, 1, 0, 3).reshape(2, 16).astype(np.float64)

    def _factor(self, form: Any, descriptor: int, rows: Any, dtype: str, is_exchanged: bool) -> Any:
        """Return rows of a factor in one step."""
        size, depth = form.itemsize, form.depth
        assert descriptor >> 62 & 3 == 1
        leading, stride = ((descriptor >> n & 0x3FFF) * 16 for n in (16, 32))
        low = (descriptor & 0x3FFF) << 4
        start = self.base + (low - self.base) % (1 << _LOW_BITS)
        k = np.arange(depth)[None, :]
        row = np.asarray(rows)[:, None]
        if is_exchanged:
            wide = _ROW_BYTES // size
            places = row // wide * leading + k // 8 * stride + k % 8 * _ROW_BYTES
            places = places + row % wide * size
        else:
            places = row // 8 * stride + row % 8 * _ROW_BYTES + k * size
        bytes_at = _exchanged(start + places[..., None] + np.arange(size))
        lowest, highest = int(bytes_at.min()), int(bytes_at.max())
        memory = _memory(lowest, highest - lowest + 1)
        found = np.ascontiguousarray(memory[bytes_at - lowest])
        kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
        return found.view(kind)[..., 0].astype(np.float64)


def _map_at(address: int) -> tuple[int, int, int, int, Any, Any, Any]:
    """Return address, dtype, rank, swizzle, extents, strides and box of a tensor map."""
    words = struct.unpack("=Q3I5Q4Q5I", ctypes.string_at(address, 112))
    found, dtype, rank, swizzle = words[:4]
    box = words[13:18]
    assert rank == 2 or set(box[2:rank]) == {1}
    return found, dtype, rank, swizzle, words[4:9], words[9:13], box


def _exchanged(addresses: Any) -> Any:
    """Return where bytes are whose 16-byte parts are exchanged in rows of 128 bytes."""
    return addresses ^ ((addresses >> 7 & 7) << 4)


def _memory(address: int, count: int) -> Any:
    return np.frombuffer((ctypes.c_uint8 * count).from_address(address), np.uint8)
