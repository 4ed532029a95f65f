"""What writes the regions of a kernel as machine code of this processor."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from llvmlite import ir

from kerneldsl.contract import Specialization
from kerneldsl.ir.emission import Emitter
from kerneldsl.ir.frontend.reader import NotReadError
from kerneldsl.ir.operations import Operation
from kerneldsl.lowering.numba_internals.arrays import suspend_emission
from targets.cpu.codegen.storage import STACK_BYTES
from targets.cpu.intrinsics.table import Atomic, ScalarOperation, lowering_of

__all__ = ["CpuEmitter"]

_I32, _I64 = ir.IntType(32), ir.IntType(64)
_ALIGNMENT = 64


class CpuEmitter(Emitter):
    """Writes the regions of a kernel; modules add the handlers of their operations."""

    def __init__(self, context: Any, builder: Any, spec: Specialization) -> None:
        super().__init__(context, builder)
        self.spec = spec
        _, _, self.first, self.last, self.launch = builder.function.args
        self.stack_bytes = 0
        #: The axes of rows that the axes of ``grid`` are.
        self.axes = ""
        #: Ids of the block and the thread, or of the element.
        self.ids: dict[str, ir.Value] = {}
        #: Branches with a condition that is known to hold.
        self.passed: set[Operation] = set()
        self.group = builder.module.add_metadata(["kerneldsl.accesses"])
        self.threads_count = math.prod(spec.block_dim or (1,))

    def register(self, handlers: Mapping[str, Callable[[CpuEmitter, Operation], None]]) -> None:
        """Add functions that write operations, by the operations' names."""
        for name, handler in handlers.items():
            self.handlers[name] = partial(handler, self)

    def word(self, number: int) -> ir.Value:
        """Read a word of the launch."""
        words = self.builder.bitcast(self.launch, _I64.as_pointer())
        return self.builder.load(self.builder.gep(words, [_I32(number)]))

    def smaller(self, one: Any, two: Any) -> Any:
        """Return the smaller of two signed integers."""
        if isinstance(one, ir.Constant) and isinstance(two, ir.Constant):
            return one if one.constant < two.constant else two
        return self.builder.select(self.builder.icmp_signed("<", one, two), one, two)

    def larger(self, one: Any, two: Any) -> Any:
        """Return the larger of two signed integers."""
        if isinstance(one, ir.Constant) and isinstance(two, ir.Constant):
            return one if one.constant > two.constant else two
        return self.builder.select(self.builder.icmp_signed(">", one, two), one, two)

    def reserve(self, kind: Any, count: int) -> ir.Value:
        """Return the address of memory that one worker has while it runs the body."""
        builder = self.builder
        self.stack_bytes += self.context.get_abi_sizeof(kind) * count
        if self.stack_bytes > STACK_BYTES:
            raise NotReadError("storage that is larger than the stack")
        with suspend_emission(builder), builder.goto_entry_block():
            memory = builder.alloca(ir.ArrayType(kind, count))
            memory.align = _ALIGNMENT
            return builder.bitcast(memory, kind.as_pointer())

    def read(self, place: Any) -> Any:
        """Load from memory that threads may access in any order."""
        loaded = self.builder.load(place)
        loaded.set_metadata("llvm.access.group", self.group)
        return loaded

    def write(self, value: Any, place: Any) -> None:
        """Store to memory that threads may access in any order."""
        self.builder.store(value, place).set_metadata("llvm.access.group", self.group)

    # -- the language -----------------------------------------------------------------------------

    def intrinsic(self, operation: Operation) -> None:
        name = operation.name
        if name in ("grid", "gridsize") and self.axes:
            name = f"{name}.{self.axes[operation.attributes.get('axis', 0)]}"
        found = self.ids.get(name)
        if found is not None:
            self.set(operation, found)
            return
        use = operation.attributes.get("use")
        if use is None:
            raise NotReadError(operation.name)
        match lowering_of(use.intrinsic):
            case ScalarOperation(emitter=emit) | Atomic(shared=emit):
                self.call_emitter(operation, emit, use.static)
            case _:
                raise NotReadError(operation.name)
