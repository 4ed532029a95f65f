"""Compiled CPU code, its launch, and the text that a fault of the process says of a launch.

The text belongs to the compiled kernel: a native handler
(:mod:`targets.cpu.runtime.signal_handlers`) reads shapes from the launch's parameters.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn, TypeAlias

import numpy as np

from kerneldsl.analysis.work import KernelWork
from kerneldsl.contract import Artifact, Device, Executable, LaunchConfig, Resources, Specialization
from kerneldsl.contract.abi import ParameterLayout
from kerneldsl.contract.findings import NO_BARRIERS, BarrierFacts, Finding
from kerneldsl.errors import BarrierDivergenceError
from kerneldsl.language.kinds import ArrayKind
from kerneldsl.utilities.cached_property import cached_property
from kerneldsl.utilities.dataclasses import dataclass
from targets.cpu.runtime.native_tables import ALIGNMENT, FINISHED, HEADER_BYTES, STOPPED, LaunchWord
from targets.cpu.runtime.signals import (
    current_launch,
    enter_address,
    main_thread,
    prepare_signals,
    watch_address,
)
from targets.cpu.runtime.threads import ThreadingLayer, running_address, threading_layer

if TYPE_CHECKING:
    from kerneldsl.contract import HostEntry
    from kerneldsl.lowering.faults import FaultTable

__all__ = [
    "LEAST_SEGMENT",
    "LEAST_STEP_THREADS",
    "SERIAL_THREADS",
    "STEPS_PER_THREAD",
    "Compiled",
    "CpuArtifact",
    "CpuExecutable",
    "RowAxis",
    "describe_launch",
]

RowAxis: TypeAlias = Literal["first", "last"]
#: A launch of fewer threads than this runs in the calling thread: sharing it costs more.
SERIAL_THREADS = 16 * 1024
#: Steps a launch is cut into for each thread of the pool, at most. Small ones keep threads on
#: neighbouring memory, and a thread that is held up does not hold up the launch.
STEPS_PER_THREAD = 16
#: Threads of the kernel that are worth a separate step.
LEAST_STEP_THREADS = 16 * 1024
#: Shortest piece of a row that is worth a separate step.
LEAST_SEGMENT = 2048
#: Longest one, of a kernel without and with loops: a launch can be stopped between two of them.
_MOST_SEGMENT, _MOST_SEGMENT_OF_LOOPS = 16 * 1024, 512
_HEADER = struct.Struct("=19q")
#: Threads of a kernel without loops in the first piece of a launch, after which it may be stopped.
#: Together they have at most so many nodes of its tree; a node takes less than 50 ns.
_LEAST_FIRST_THREADS, _MOST_FIRST_THREADS, _FIRST_NODES = 1024, 16 * 1024, 400_000
_WORD = struct.Struct("=q")


@dataclass(frozen=True)
class Compiled:
    """Machine code of one body."""

    #: Object that returns LLVM's module and the assembly: Numba's code library, or a substitute.
    library: Any
    #: Address of the entry.
    address: int
    #: Symbol of the entry.
    entry_name: str
    #: Owner of the code; ``None`` if the library owns it.
    loaded: Any = None


@dataclass(frozen=True)
class CpuArtifact(Artifact):
    """One compiled kernel."""

    #: The specialization that was compiled.
    specialization: Specialization
    #: Symbol of the entry.
    entry_name: str
    #: Seconds for each step.
    timings: Mapping[str, float]
    #: Text of the kernel's regions, or a function that returns it.
    source: str | Callable[[], str] = field(repr=False)
    #: Machine code of the kernel.
    compiled: Compiled = field(repr=False)
    #: Axis of the extent along which row segments run; ``None`` if units of work are blocks.
    rows_along: RowAxis | None = None
    #: Sites of faults in debug mode.
    fault_table: FaultTable | None = field(default=None, repr=False)
    #: Storage of a block that waits for the others, without dynamic shared memory; ``None`` where
    #: blocks do not wait.
    part_bytes: int | None = None
    #: Warnings about the kernel.
    findings: tuple[Finding, ...] = field(default=(), repr=False)
    barriers: BarrierFacts = field(default=NO_BARRIERS, repr=False)
    #: Work for one index.
    work: KernelWork | None = field(default=None, repr=False)
    #: Nodes in the syntax trees of a kernel without loops and of its callees; 0 with loops.
    straight_nodes: int = 0

    @property
    def is_element_space(self) -> bool:
        """True if units of work are row segments, and not blocks."""
        return self.rows_along is not None

    def text(self, form: str) -> str:
        """Return a form of the code: ``"source"``, the regions, ``"llvm"``, or ``"asm"``."""
        if form == "source":
            return self.source() if callable(self.source) else self.source
        if form == "llvm":
            return str(self.compiled.library.get_llvm_str())
        if form == "asm":
            return str(self.compiled.library.get_asm_str())
        raise ValueError(f"the cpu target has no {form!r}; it has 'source', 'llvm' and 'asm'")

    def forms_at_hand(self) -> tuple[str, ...]:
        """Return the forms that take no compiling: of stored code not those of LLVM."""
        has_module = getattr(self.compiled.library, "has_module", True)
        if has_module:
            return ("source", "llvm", "asm")
        return () if callable(self.source) else ("source",)

    @property
    def has_loops(self) -> bool:
        """True if a thread of the kernel may run for long."""
        return self.straight_nodes == 0

    @property
    def longest_segment(self) -> int:
        """Indices of the longest row segment, after which a launch can be stopped."""
        return _MOST_SEGMENT_OF_LOOPS if self.has_loops else _MOST_SEGMENT

    def resources(self) -> Resources:
        """Return a block's resources; registers and spills are the compiler's affair on a CPU."""
        traits = self.specialization.traits
        return Resources(None, None, None, traits.static_shared_bytes, 1024)


class CpuExecutable(Executable):
    """A compiled kernel on this machine."""

    artifact: CpuArtifact

    def __init__(self, artifact: CpuArtifact, device: Device) -> None:
        self.artifact = artifact
        self.device = device

    def launch(self, config: LaunchConfig, parameters: bytes) -> None:
        """Run the kernel and wait for it; the GIL is released meanwhile."""
        layer = threading_layer()
        units, step, space, parallel = self._divide(config, layer)
        if units == 0:
            return
        prepare_signals()
        record = None
        fault = 0
        if self.artifact.fault_table is not None:
            from kerneldsl.lowering.faults import FAULT_RECORD_BYTES

            record = ctypes.create_string_buffer(FAULT_RECORD_BYTES)
            fault = ctypes.addressof(record)
        header = self._header(config, step, units, space, fault)
        buffer = ctypes.create_string_buffer(header + parameters, HEADER_BYTES + len(parameters))

        def run() -> None:
            layer.run(
                self.artifact.compiled.address,
                ctypes.addressof(buffer),
                -(-units // step),
                parallel=parallel,
            )
            (failure,) = _WORD.unpack_from(buffer, 8 * LaunchWord.FAILURE)
            if record is not None and failure != STOPPED:
                from targets.cpu.runtime.faults import raise_recorded

                raise_recorded(record.raw, self.artifact, config)
            if failure:
                self._fail(failure, config.shared_bytes)

        if self.artifact.part_bytes is None:
            run()
        else:
            self._run_in_passes(run, buffer, units, config.shared_bytes)

    def _run_in_passes(
        self,
        run: Callable[[], None],
        header: ctypes.Array[ctypes.c_char],
        blocks: int,
        shared_bytes: int,
    ) -> None:
        """Call `run`, which runs the entry over all blocks, until they have come to their end.

        What a block keeps meanwhile is in its part of one piece of memory. It begins with the state
        from which the block goes on (:mod:`targets.cpu.regions.block_kernels`).

        - raises `OutOfMemoryError`: there is no memory for what the blocks keep.
        - raises `BarrierDivergenceError`: some blocks wait, and others have ended or wait
          elsewhere, where a GPU would wait permanently. Analysis refuses kernels in which that
          could be; arguments that overlap may deceive it.
        """
        assert self.artifact.part_bytes is not None
        each = -(-(self.artifact.part_bytes + shared_bytes) // ALIGNMENT) * ALIGNMENT
        try:
            memory = np.empty(blocks * each + ALIGNMENT, np.uint8)
        except MemoryError:
            self._fail(blocks * each, shared_bytes)
        start = -memory.ctypes.data % ALIGNMENT
        states = memory[start : start + blocks * each].reshape(blocks, each)[:, :8].view(np.int64)
        states[...] = 0
        ctypes.c_int64.from_buffer(header, 8 * LaunchWord.PARTS).value = memory.ctypes.data + start
        state = 0
        while state != FINISHED:
            run()
            state = states[0, 0]
            if not (states == state).all():
                unit = self.artifact.specialization.unit
                raise BarrierDivergenceError(
                    f"blocks of {unit.qualname} wait at different barriers of the grid",
                    where=unit.locate(unit.tree),
                    limit="Every thread of a launch must reach the same barrier",
                    remedy="Give it arguments that do not overlap in memory",
                )

    def _fail(self, failure: int, shared_bytes: int) -> NoReturn:
        """Raise for a launch that did not come to its end; what says why is imported now."""
        from targets.cpu.runtime.faults import raise_incomplete

        raise_incomplete(self.artifact, failure, shared_bytes)

    def native_entry(self, config: LaunchConfig) -> HostEntry | None:
        """Return the entry, shared among the threads as :meth:`launch` shares it."""
        from kerneldsl.contract import HostEntry

        layer = threading_layer()
        units, step, space, parallel = self._divide(config, layer)
        if units == 0 or self.artifact.fault_table is not None:
            return None
        if self.artifact.part_bytes is not None:
            return None  # the entry is called once for each barrier of the grid
        steps = -(-units // step)
        entry = HostEntry(
            self.artifact.compiled.address,
            self._header(config, step, units, space, 0),
            steps,
            keep=(self, layer),
            failure_word=LaunchWord.FAILURE,
            fail=partial(self._fail, shared_bytes=config.shared_bytes),
        )
        if not parallel or steps == 1 or layer.parallel_for is None:
            return entry
        if layer.parallel_for_address == 0:  # one launch at a time, so a lock stands before it
            return None
        return replace(
            entry,
            parallel_for=layer.parallel_for_address,
            thread_count=layer.thread_count,
            running=running_address(),
            current=current_launch(),
            main_thread=main_thread(),
        )

    def _header(
        self, config: LaunchConfig, step: int, units: int, space: tuple[int, ...], fault: int
    ) -> bytes:
        description, first_units = self.description.address, self._first_units(config, space)
        return _HEADER.pack(
            *(step, units, *space, config.shared_bytes, self._code_range[0], fault, 0),
            *(description, 0, enter_address(), first_units, watch_address(), 0, 0),
        )

    def _first_units(self, config: LaunchConfig, space: tuple[int, ...]) -> int:
        """Return the units in the first piece: one where threads have loops, of whatever length."""
        threads = space[0] if self.artifact.is_element_space else math.prod(config.block_dim)
        return max(1, self._first_threads // max(threads, 1))

    @cached_property
    def description(self) -> Description:
        """Return the text that a fault in this process says of a launch."""
        return describe_launch(self.artifact.specialization)

    @cached_property
    def _code_range(self) -> tuple[int, object]:
        """Return the address of the range of the machine code's addresses, and what owns it."""
        loaded = self.artifact.compiled.loaded
        if loaded is None:
            return 0, None
        words = (ctypes.c_int64 * 2)(*loaded.code_range)
        return ctypes.addressof(words), words

    @cached_property
    def _first_threads(self) -> int:
        if self.artifact.has_loops:
            return 1
        fitting = _FIRST_NODES // self.artifact.straight_nodes
        return min(max(fitting, _LEAST_FIRST_THREADS), _MOST_FIRST_THREADS)

    def _divide(
        self, config: LaunchConfig, layer: ThreadingLayer
    ) -> tuple[int, int, tuple[int, ...], bool]:
        """Return units of work, units of a step, the space, and whether to share the steps."""
        threads = self._thread_total(config)
        share = config.share
        if share is None:
            parallel = threads > SERIAL_THREADS and layer.thread_count > 1
            wanted = _step_count(threads, layer.thread_count) if parallel else 1
        else:
            parallel = share.is_parallel and layer.thread_count > 1
            wanted = -(-threads // share.chunk) if parallel else 1
        if self.artifact.is_element_space:
            shortest = LEAST_SEGMENT if share is None else 64
            units, space = self._segments(config, wanted, shortest)
        else:
            units, space = self._blocks(config)
        steps = max(min(units, wanted), 1)
        return units, -(-units // steps), space, parallel

    def _thread_total(self, config: LaunchConfig) -> int:
        """Return the threads of the kernel, or indices of an element kernel's extent."""
        if self.artifact.is_element_space and config.extent is not None:
            return math.prod(config.extent)
        return math.prod(config.grid_dim) * math.prod(config.block_dim)

    def _segments(
        self, config: LaunchConfig, wanted: int, shortest: int
    ) -> tuple[int, tuple[int, ...]]:
        if config.extent is not None:
            is_last = self.artifact.rows_along == "last"
            axes = reversed(config.extent) if is_last else config.extent
            nx, ny, nz = (*axes, 1, 1)[:3]
        else:
            nx, ny, nz = (g * b for g, b in zip(config.grid_dim, config.block_dim, strict=True))
        rows = ny * nz
        pieces = 1 if rows >= wanted else -(-wanted // max(rows, 1))
        # A multiple of 64 keeps the ends of pieces away from the middle of a vector.
        segment = min(max(-(-nx // pieces), shortest), self.artifact.longest_segment)
        segment = min(-(-segment // 64) * 64, max(nx, 1))
        units = rows * -(-nx // segment) if nx else 0
        return units, (segment, nx, ny, nz, 0, 0)

    def _blocks(self, config: LaunchConfig) -> tuple[int, tuple[int, ...]]:
        blocks = math.prod(config.grid_dim)
        extent = (*(config.extent or ()), 1, 1, 1)[:3]
        return blocks, (*config.grid_dim, *extent)


def _step_count(threads: int, thread_count: int) -> int:
    """Return steps for a launch of so many threads of the kernel on a pool of so many threads."""
    return max(thread_count, min(threads // LEAST_STEP_THREADS, thread_count * STEPS_PER_THREAD))


# -- the text that a fault of the process says of a launch, made before there is one --------------


_NO_NUMBER = -1
_HINT = (
    "). An index beyond an array does this: run it with debug=True, or KERNELDSL_DEBUG=1 in the "
    "environment, to see where.\n"
)


class Description(NamedTuple):
    """Text in native memory, with places for numbers."""

    #: Address of the number of pieces, which is followed by three words for each piece. The words
    #: are the address and the bytes of a text, and the offset of the launch's int64 that follows
    #: the text, or -1.
    address: int
    #: Owners of the memory.
    keep: tuple[Any, ...]


def describe_launch(specialization: Specialization) -> Description:
    """Make the description of a kernel's launches."""
    unit, kinds = specialization.unit, specialization.kinds
    layout = ParameterLayout(unit.parameters, kinds, specialization.mode)
    places = {p.name: HEADER_BYTES + p.offset for p in layout.parameters}
    pieces: list[tuple[str, int]] = []
    text = f"\nkerneldsl: a memory access failed while kernel {unit.qualname}("
    for index, (name, kind) in enumerate(zip(layout.names, layout.kinds, strict=True)):
        text += ", " if index else ""
        if not isinstance(kind, ArrayKind):
            text += f"{name}: {kind}"
            continue
        text += f"{name}: {kind.element.name} of shape ("
        for axis in range(kind.ndim):
            pieces.append((text + (", " if axis else ""), places[f"{name}.shape[{axis}]"]))
            text = ""
        text += ",)" if kind.ndim == 1 else ")"
    text += f") was running ({unit.filename}:{unit.first_line}"
    pieces.append((text + _HINT, _NO_NUMBER))
    held = [ctypes.create_string_buffer(t.encode("utf-8", "replace")) for t, _ in pieces]
    words = [len(pieces)]
    for memory, (_, place) in zip(held, pieces, strict=True):
        words += (ctypes.addressof(memory), len(memory) - 1, place)
    table = (ctypes.c_int64 * len(words))(*words)
    return Description(ctypes.addressof(table), (table, *held))
