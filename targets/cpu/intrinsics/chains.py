"""Chains of blocks: a block takes the next part, and finds what is before it, once for its threads.

Workers run their blocks one after the other, and a block takes its part when it runs. So a block
that waits for a part waits for a block that another worker is running, or has run: under any
threading layer, and with any number of workers, none waits for what has not begun. A worker that
waits gives its processor to others.

A block that fails in debug mode publishes nothing; the launch raises, and no block waits any
longer.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils

from kerneldsl.lowering.calls import Call
from kerneldsl.lowering.chains import Nodes, SequentialLookBack, State
from kerneldsl.lowering.loops import loop_while
from targets.cpu.runtime.signals import IS_SUPPORTED

__all__ = ["write_chain"]

_I1, _I32, _I64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)

_ORDER = "monotonic"
#: How often a worker looks before it gives its processor to others.
_LOOKS = 64


class _LookBack(SequentialLookBack):
    """The look-back of a worker; `record` is the address of the fault record, 0 without one."""

    def __init__(self, call: Call, nodes: Nodes, record: Any) -> None:
        super().__init__(call, nodes)
        self._record = record

    def wait(self, node: ir.Value) -> ir.Value:
        builder = self.builder
        is_there, value = self.nodes.look(node)
        goes_on = cgutils.alloca_once_value(builder, builder.not_(is_there))
        found = cgutils.alloca_once_value(builder, value)
        looks = cgutils.alloca_once_value(builder, _I32(0))
        with loop_while(builder, lambda: builder.load(goes_on)):
            is_there, value = self.nodes.look(node)
            builder.store(value, found)
            builder.store(builder.not_(is_there), goes_on)
            count = builder.add(builder.load(looks), _I32(1))
            builder.store(count, looks)
            is_long = builder.icmp_unsigned("==", builder.urem(count, _I32(_LOOKS)), _I32(0))
            with builder.if_then(is_long, likely=False):
                if IS_SUPPORTED:
                    kind = ir.FunctionType(_I32, [])
                    give = cgutils.get_or_insert_function(builder.module, kind, "sched_yield")
                    builder.call(give, [])
                with builder.if_then(self._has_failed()):
                    builder.store(_I1(0), goes_on)
        return builder.load(found)

    def _has_failed(self) -> ir.Value:
        """Return whether a block of the launch has failed."""
        builder = self.builder
        has_record = builder.icmp_unsigned("!=", self._record, _I64(0))
        result = cgutils.alloca_once_value(builder, _I1(0))
        with builder.if_then(has_record):
            place = builder.inttoptr(self._record, _I32.as_pointer())
            claimed = builder.load_atomic(place, _ORDER, 4)
            builder.store(builder.icmp_unsigned("!=", claimed, _I32(0)), result)
        return builder.load(result)


def _next(call: Call, blocks: ir.Value, record: ir.Value) -> ir.Value:
    state = State.of(call, _ORDER)
    return state.part_of(state.count_part())


def _before(call: Call, blocks: ir.Value, record: ir.Value) -> ir.Value:
    state = State.of(call, _ORDER)
    kind = call.context.get_value_type(call.signature.return_type)
    return _LookBack(call, Nodes(state, kind, state.launch(), blocks), record).run()


def _publish(call: Call, blocks: ir.Value, record: ir.Value) -> ir.Value:
    """Leave it to the look-back, as a block that fails in debug mode publishes nothing."""
    return call.context.get_dummy_value()


_EMITTERS = {"chain.next": _next, "chain.before": _before, "chain.publish": _publish}


def write_chain(name: str, call: Call, blocks: ir.Value, record: ir.Value) -> ir.Value:
    """Write an operation; `record` is the address of the fault record, or 0."""
    return _EMITTERS[name](call, blocks, record)
