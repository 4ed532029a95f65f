"""Runs the LLVM code of a CUDA kernel on the host, without a GPU: a slow oracle of its threads.

The code is that of a kernel's regions, before LLVM's passes for a GPU. Each thread of a block is a
Python thread. One runs at a time, until it waits for others, so that results do not depend on
chance. Shared memory is the module's.
"""

from __future__ import annotations

import ctypes
import itertools
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from kerneldsl.contract import Specialization
from kerneldsl.language.kinds import ArrayKind, leaf_kinds
from kerneldsl.lowering.float_conversions import define_conversions
from kerneldsl.lowering.quotients import division_definitions
from kerneldsl.lowering.shifts import shift_definitions
from targets.cpu.math.workarounds import write_conversion
from targets.cuda.architectures import parse_arch
from targets.cuda.compile.ptx_lines import MATRIX_SHARED
from targets.cuda.compile.region_code import device_texts
from tests.support.matrix_threads import Copies, give_matrices, is_of_warp, rounded
from tests.support.turns import taken_lock

__all__ = ["simulate_device"]

_C_TYPES = {
    "pointer": ctypes.c_void_p,
    "bool": ctypes.c_uint8,
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
    **{
        f"{sign}int{bits}": getattr(ctypes, f"c_{sign}int{bits}")
        for sign in ("", "u")
        for bits in (8, 16, 32, 64)
    },
}
_LLVM_TYPES = {
    "void": None,
    "i1": ctypes.c_bool,
    **dict.fromkeys(("i8*", "i32*", "float*", "double*"), ctypes.c_void_p),
    "float": ctypes.c_float,
    "double": ctypes.c_double,
    **{f"i{bits}": getattr(ctypes, f"c_int{bits}") for bits in (8, 16, 32, 64)},
}
#: Functions of a device: LLVM's, and those that have a form for each architecture.
_NAME = r'"(?:llvm\.nvvm\.([\w.]+)|kd_by_architecture_(\w+))"'
_DECLARED = re.compile(rf"^declare (\w+) @{_NAME}\(([^)]*)\)", re.MULTILINE)
_SPACE = re.compile(r" ?addrspace\(\d+\)")
#: Dynamic shared memory, the size of which is in its name.
_MATRIX = re.compile(rf'(@"{MATRIX_SHARED}(\d+)") = external *global \[0 x i8\]')
_ACTIVE = re.compile(r'call i32 @"llvm\.nvvm\.activemask"')
_EXTREME = re.compile(r'^declare (\w+) @"llvm\.(m\w+imumnum)\.(\w+)"\([^)]*\)', re.MULTILINE)
_LIBM = ctypes.CDLL("libm.so.6")
#: More than the record of faults of debug mode.
_FAULTS = ctypes.create_string_buffer(1 << 16)
_STACK_BYTES = 512 * 1024
_WARP = 32
_ALL = 0xFFFFFFFF


def simulate_device(
    specialization: Specialization,
    grid: tuple[int, ...],
    args: tuple[Any, ...],
    *,
    block: tuple[int, int, int] | None = None,
    is_reversed: bool = False,
    arch: str = "sm_90",
) -> None:
    """Run a kernel on NumPy arrays, in place.

    With `is_reversed` threads run in the other order between barriers, which a race would show.
    The block of a kernel with tiles is that of its specialization.
    """
    block_dim = block or specialization.block_dim
    assert block_dim is not None
    texts = device_texts(specialization, "entry", parse_arch(arch))
    run = _Block(block_dim, is_reversed=is_reversed)
    texts = tuple(_numbered(_SPACE.sub("", text)) for text in texts)
    declared = {each for text in texts for each in _DECLARED.findall(text)}
    callbacks = {
        one or two: _callback(run, r, one or two, given) for r, one, two, given in declared
    }
    for name, callback in callbacks.items():
        llvm.add_symbol(_symbol(name), ctypes.cast(callback, ctypes.c_void_p).value)
    layout = specialization.layout
    engine = _compiled(texts)
    parameters = [_C_TYPES[each.dtype] for each in layout.parameters]
    entry = ctypes.CFUNCTYPE(None, *parameters)(engine.get_function_address("entry"))
    flat = list(_flat(specialization, args))
    grid_dim = (*grid, 1, 1)[:3]
    for z, y, x in product(*map(range, grid_dim[::-1])):
        run.run(lambda: entry(*flat), grid_dim, (x, y, z))


def _numbered(text: str) -> str:
    """Return a text in which each call that asks for the active lanes calls another function.

    Lanes at one of these calls are active together.
    """
    found = _ACTIVE.findall(text)
    numbers = itertools.count()
    prefix = "llvm.nvvm.activemask"
    text = _ACTIVE.sub(lambda _: f'call i32 @"{prefix}.{next(numbers)}"', text)
    return text + "".join(f'\ndeclare i32 @"{prefix}.{n}"()\n' for n in range(len(found)))


def _symbol(name: str) -> str:
    return "kd_host_" + name.replace(".", "_")


def _module(text: str) -> Any:
    """Return LLVM's module of a text for a GPU, as one for the host."""
    found = re.search(r' asm (?:sideeffect )?"[^"]*"', text)
    if found is not None:
        raise NotImplementedError(found[0])
    text = re.sub(rf"@{_NAME}", lambda found: f'@"{_symbol(found[1] or found[2])}"', text)
    text = re.sub(r"^target (triple|datalayout) = .*$", "", text, flags=re.MULTILINE)
    text = text.replace("ptx_kernel ", "")
    text = _MATRIX.sub(r"\1 = internal global [\2 x i8] zeroinitializer", text)
    text = _EXTREME.sub(_extreme, text.replace("addrspacecast", "bitcast"))
    text = re.sub(r"llvm\.(m\w+imumnum)", r"kd_host_\1", text)
    return llvm.parse_assembly(define_conversions(text, write_conversion))


def _compiled(texts: Sequence[str]) -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.load_library_permanently("libm.so.6")
    module, *others = map(_module, texts)
    for other in others:
        module.link_in(other)
    symbols = [function.name for function in module.functions]
    for definition in (*division_definitions(symbols), *shift_definitions(symbols)):
        module.link_in(llvm.parse_assembly(definition))
    module.verify()
    missing = {
        function.name
        for function in module.functions
        if function.is_declaration
        and not function.name.startswith(("llvm.", "kd_host_"))
        and not hasattr(_LIBM, function.name)
    }
    assert not missing, f"the host has no {missing}"
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=1
    )
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return engine


def _extreme(found: re.Match[str]) -> str:
    """Return the code of the larger or smaller of two numbers: a host has no instruction for it."""
    kind, name = found[1], found[2]
    bits = {"half": "i16", "float": "i32", "double": "i64"}[kind]
    compare, both = ("ogt", "and") if name == "maximumnum" else ("olt", "or")
    return f"""define {kind} @"kd_host_{name}.{found[3]}"({kind} %a, {kind} %b) {{
    %is_first = fcmp {compare} {kind} %a, %b
    %larger = select i1 %is_first, {kind} %a, {kind} %b
    %a_bits = bitcast {kind} %a to {bits}
    %b_bits = bitcast {kind} %b to {bits}
    %zero_bits = {both} {bits} %a_bits, %b_bits
    %zero = bitcast {bits} %zero_bits to {kind}
    %is_equal = fcmp oeq {kind} %a, %b
    %number = select i1 %is_equal, {kind} %zero, {kind} %larger
    %has_a = fcmp ord {kind} %a, %a
    %has_b = fcmp ord {kind} %b, %b
    %one = select i1 %has_b, {kind} %number, {kind} %a
    %any = select i1 %has_a, {kind} %one, {kind} %b
    ret {kind} %any
}}"""


def _flat(specialization: Specialization, args: Sequence[Any]) -> Iterator[Any]:
    """Return the values of the entry's parameters."""
    leaves = leaf_kinds(specialization.kinds)
    for kind, value in zip(leaves, _leaves(args), strict=True):
        if isinstance(kind, ArrayKind):
            yield value.ctypes.data
            yield from value.shape
            if kind.layout == "A":
                yield from value.strides
        elif np.iscomplexobj(value):
            yield float(value.real)
            yield float(value.imag)
        else:
            yield value.item() if isinstance(value, np.generic) else value
    if specialization.options.debug:
        yield ctypes.addressof(_FAULTS)


def _leaves(args: Sequence[Any]) -> Iterator[Any]:
    for value in args:
        if isinstance(value, tuple):
            yield from _leaves(value)
        else:
            yield value


class _Thread:
    """One thread of a block."""

    def __init__(self, number: int, block_dim: tuple[int, int, int]) -> None:
        width, height, _ = block_dim
        self.number = number
        self.index = number % width, number // width % height, number // (width * height)
        self.lane = number % _WARP
        self.may_run = taken_lock()
        #: What it waits in, with the lanes that it names, and what it gives and gets there.
        self.waiting: tuple[str, int] | None = None
        self.given: tuple[int, ...] = ()
        self.result = 0
        self.is_done = False
        self.copies = Copies()


class _Block:
    """The threads of a block, one of which runs."""

    def __init__(self, block_dim: tuple[int, int, int], *, is_reversed: bool) -> None:
        self.block_dim = block_dim
        self._is_reversed = is_reversed
        self._ended = taken_lock()
        self._local = threading.local()
        self._threads: list[_Thread] = []
        self._errors: list[BaseException] = []
        self.grid_dim = self.place = (1, 1, 1)

    @property
    def current(self) -> _Thread:
        found: _Thread = self._local.thread
        return found

    def run(self, call: Callable[[], None], grid_dim: Any, place: Any) -> None:
        """Run all threads of one block."""
        self.grid_dim, self.place = grid_dim, place
        count = int(np.prod(self.block_dim))
        self._threads = [_Thread(number, self.block_dim) for number in range(count)]
        self._errors.clear()

        def body(thread: _Thread) -> None:
            self._local.thread = thread
            thread.may_run.acquire()
            try:
                call()
            except BaseException as error:  # noqa: BLE001 - reported by the thread that started it
                self._errors.append(error)
            thread.is_done = True
            self._ended.release()

        before = threading.stack_size(_STACK_BYTES)
        hosts = [threading.Thread(target=body, args=(each,)) for each in self._threads]
        for host in hosts:
            host.start()
        threading.stack_size(before)
        order = self._threads[::-1] if self._is_reversed else self._threads
        while not all(each.is_done for each in order):
            ready = [each for each in order if not each.is_done and each.waiting is None]
            assert ready, f"threads wait in {[each.waiting for each in order]}"
            for each in ready:
                each.may_run.release()
                self._ended.acquire()
            self._meet()
        for host in hosts:
            host.join()
        if self._errors:
            raise self._errors[0]

    def exchange(self, what: str, lanes: int, given: tuple[int, ...]) -> int:
        """Wait for other threads; return what this one gets."""
        thread = self.current
        thread.waiting, thread.given = (what, lanes), given
        self._ended.release()
        thread.may_run.acquire()
        return thread.result

    def _meet(self) -> None:
        """Let threads go on that wait in one operation, if all of them are there."""
        alive = [each for each in self._threads if not each.is_done]
        if alive and all(each.waiting and each.waiting[1] < 0 for each in alive):
            assert len({each.waiting for each in alive}) == 1, "threads wait in several barriers"
            _give(alive)
        for start in range(0, len(self._threads), _WARP):
            warp = self._threads[start : start + _WARP]
            for each in warp:
                if each.waiting is None or each.waiting[1] <= 0:
                    continue
                named = [other for other in warp if each.waiting[1] >> other.lane & 1]
                if all(other.waiting == each.waiting for other in named):
                    _give(named)
        if all(each.waiting for each in alive):
            self._activate(alive)

    def _activate(self, alive: list[_Thread]) -> None:
        """Let the lanes that wait at one call to be active together go on."""
        found: dict[Any, list[_Thread]] = {}
        for each in alive:
            if each.waiting is not None and each.waiting[1] == 0:
                found.setdefault((each.waiting, each.number // _WARP), []).append(each)
        for lanes in found.values():
            _give(lanes)


def _give(threads: list[_Thread]) -> None:
    """Give threads what an operation that all of them wait in gives."""
    assert threads[0].waiting is not None
    what, _ = threads[0].waiting
    if is_of_warp(what):
        give_matrices(what, [each.given for each in threads])
    by_lane = {each.lane: each for each in threads}
    lanes = sum(1 << each.lane for each in threads)
    for each in threads:
        match what.replace("_", ".").split("."):
            case ["barrier", "cta", "red", word, *_]:
                votes = [bool(other.given[1]) for other in threads]
                each.result = {"or": any(votes), "and": all(votes), "popc": sum(votes)}[word]
            case ["vote", word, "sync"]:
                votes = [bool(other.given[1]) for other in threads]
                ballot = sum(bool(other.given[1]) << other.lane for other in threads)
                each.result = {"any": any(votes), "all": all(votes), "ballot": ballot}[word]
            case ["activemask", *_]:
                each.result = lanes
            case ["match", "any", _]:
                own = [other for other in threads if other.given[1] == each.given[1]]
                each.result = sum(1 << other.lane for other in own)
            case ["match", "all", _]:
                each.result = lanes if len({other.given[1] for other in threads}) == 1 else 0
            case ["reduce", word, kind]:
                each.result = _reduced(word, kind, [other.given[1] for other in threads])
            case ["shfl", "sync", mode, *_]:
                each.result = _shuffled(each, mode, by_lane)
    for each in threads:
        each.waiting = None


def _reduced(word: str, kind: str, values: list[Any]) -> Any:
    if word == "add" and kind.startswith("float"):
        raise NotImplementedError("sums of floats, which have an order")
    array = np.array(values).astype(kind)
    function = {
        "add": np.add,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
        "min": np.fmin,
        "max": np.fmax,
    }[word]
    return function.reduce(array, dtype=kind).item()


def _shuffled(thread: _Thread, mode: str, by_lane: dict[int, _Thread]) -> int:
    _, value, lane, clamp = thread.given
    source = {
        "idx": lane & 31,
        "up": thread.lane - lane,
        "down": thread.lane + lane,
        "bfly": thread.lane ^ lane,
    }[mode]
    is_inside = source >= clamp if mode == "up" else source <= clamp
    # A lane that does not take part has any value: here one that shows.
    found = by_lane[source].given[1] if source in by_lane else 0x7FC00BAD
    return found if is_inside else value


def _callback(run: _Block, result: str, name: str, arguments: str) -> Any:
    """Return what a function of LLVM's for NVPTX is on the host."""
    words = [each.split()[0] for each in arguments.split(",") if each.strip()]
    kinds: list[Any] = [_LLVM_TYPES[each] for each in words]
    axis = "xyz".find(name[-1])
    call: Callable[..., int]
    match name.split("."):
        case ["read", "ptx", "sreg", "tid", _]:
            call = lambda: run.current.index[axis]
        case ["read", "ptx", "sreg", "ntid", _]:
            call = lambda: run.block_dim[axis]
        case ["read", "ptx", "sreg", "ctaid", _]:
            call = lambda: run.place[axis]
        case ["read", "ptx", "sreg", "nctaid", _]:
            call = lambda: run.grid_dim[axis]
        case ["read", "ptx", "sreg", "laneid"]:
            call = lambda: run.current.lane
        case ["barrier", "cta", *_]:
            call = lambda *given: run.exchange(name, -1, given)
        case ["bar", "warp", "sync"] | ["shfl" | "vote", *_]:
            call = lambda mask, *given: run.exchange(name, mask & _ALL, (mask, *given))
        case [word] if is_of_warp(word):
            call = lambda *given: run.exchange(name, _ALL, given)
        case ["matrix_round"]:
            call = rounded
        case [word] if word.startswith("matrix_"):
            call = lambda *given: run.current.copies.run(name, given)
        case [word] if word.startswith(("match_", "reduce_")):
            call = lambda mask, *given: run.exchange(name, mask & _ALL, (mask, *given))
        case ["activemask", *_]:
            call = lambda: run.exchange(name, 0, ())
        case ["read", "ptx", "sreg", "lanemask", "lt"]:
            call = lambda: (1 << run.current.lane) - 1
        case ["membar" | "isspacep" | "nanosleep", *_]:
            call = lambda *_: 1
        case _:
            raise NotImplementedError(name)
    kind = ctypes.CFUNCTYPE(_LLVM_TYPES[result], *kinds)
    if result == "void":
        return kind(lambda *given: call(*given) and None)
    return kind(call)
