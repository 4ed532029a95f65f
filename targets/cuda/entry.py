"""The entry around a kernel's body: lean parameters in, Numba's values out, one index or many.

The parameters are exactly those of :class:`kerneldsl.abi.ParameterLayout`. Whatever Numba's array
structures hold beyond them (item size, contiguous strides, number of elements) is computed here,
and mostly vanishes when the body is inlined.

Under ``forall`` an element kernel's threads beyond the extent return at once. A kernel that asks
for its place by ``grid`` alone has the last axis of the extent on x, and walks y and z in strides
of the grid, so that extents larger than the hardware's 65535 blocks work with a clamped grid; the
grid's limit along x is beyond any extent.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from llvmlite import ir
from numba import types

from kerneldsl.analysis.traits import KernelTraits
from kerneldsl.language.kinds import ArrayKind, Kind, ScalarKind
from kerneldsl.lowering.arrays import array_value
from kerneldsl.target import Specialization
from targets.cuda.intrinsics.ids import read_register

__all__ = ["build_entry"]

_i8 = ir.IntType(8)
_i64 = ir.IntType(64)
_GLOBAL_SPACE = 1


def build_entry(context: Any, fndesc: Any, name: str, specialization: Specialization) -> ir.Module:
    """Write the module with a kernel's entry.

    Parameters
    ----------
    context : KernelTargetContext
        Where the body was lowered.
    fndesc : numba FunctionDescriptor
        The body.
    name : str
        Name of the entry.
    specialization : Specialization
        Kinds of the parameters, kind of launch, options; its traits decide the mapping of axes
        and the guard.

    Returns
    -------
    ir.Module
    """
    kinds, options = specialization.kinds, specialization.options
    module = context.create_module(name)
    flat = [t for kind in kinds for t in _parameter_types(context, kind)]
    extents = specialization.mode.forall_ndim or 0
    hidden = [_i64] * extents
    if options.debug:
        hidden.append(_i8.as_pointer(_GLOBAL_SPACE))
    entry = ir.Function(module, ir.FunctionType(ir.VoidType(), [*flat, *hidden]), name)
    entry.calling_convention = "ptx_kernel"
    for argument, parameter in zip(entry.args, specialization.layout.parameters, strict=True):
        argument.name = parameter.name
        if isinstance(argument.type, ir.PointerType):
            argument.attributes.align = context.get_abi_alignment(argument.type.pointee)
    builder = ir.IRBuilder(entry.append_basic_block("entry"))
    with _line_information(context, builder, fndesc, specialization):
        parameters = iter(entry.args)
        values = [
            _value(context, builder, kind, numba_type, parameters)
            for kind, numba_type in zip(kinds, fndesc.argtypes, strict=True)
        ]
        extent = [next(parameters) for _ in range(extents)]
        fault = ir.Constant(_i8.as_pointer(), None)
        if options.debug:
            fault = builder.addrspacecast(next(parameters), _i8.as_pointer())
        body = context.declare_function(module, fndesc)
        with _place(builder, extent, specialization.traits) as (index, size):
            context.call_conv.call_with(
                builder, body, types.void, fndesc.argtypes, values, hidden=[fault, *index, *size]
            )
        builder.ret_void()
    return module


@contextmanager
def _line_information(
    context: Any, builder: ir.IRBuilder, fndesc: Any, specialization: Specialization
) -> Iterator[None]:
    """Place the entry at the kernel's ``def``; lines of what is inlined hang on it."""
    if not specialization.options.lineinfo:
        yield
        return
    unit = specialization.unit
    lines = context.DIBuilder(builder.module, unit.filename, context, directives_only=True)
    lines.mark_subprogram(builder.function, unit.qualname, (), (), unit.first_line)
    lines.mark_location(builder, unit.first_line)
    yield
    lines.finalize()


# ------------------------------------------------------------------ arguments


def _parameter_types(context: Any, kind: Kind) -> Iterator[ir.Type]:
    """LLVM types of the parameters of one argument, in the layout's order."""
    if isinstance(kind, ArrayKind):
        yield _element_type(context, kind).as_pointer(_GLOBAL_SPACE)
        yield from [_i64] * (kind.ndim * (2 if kind.layout == "A" else 1))
    elif isinstance(kind, ScalarKind):
        scalar = _scalar_type(kind.dtype)
        if isinstance(scalar, types.Complex):
            yield from [context.get_data_type(scalar.underlying_float)] * 2
        else:
            yield context.get_data_type(scalar)
    else:
        for element in kind.elements:
            yield from _parameter_types(context, element)


def _scalar_type(dtype: str) -> Any:
    return getattr(types, "boolean" if dtype == "bool" else dtype)


def _element_type(context: Any, kind: ArrayKind) -> ir.Type:
    return context.get_data_type(_scalar_type(kind.dtype))


def _value(
    context: Any,
    builder: ir.IRBuilder,
    kind: Kind,
    numba_type: Any,
    parameters: Iterator[ir.Argument],
) -> ir.Value:
    """Numba's value of one argument, made of the next parameters."""
    if isinstance(kind, ArrayKind):
        pointer = next(parameters)
        shape = [next(parameters) for _ in range(kind.ndim)]
        strides = [next(parameters) for _ in range(kind.ndim)] if kind.layout == "A" else None
        data = builder.addrspacecast(pointer, pointer.type.pointee.as_pointer())
        return array_value(context, builder, numba_type, data, shape, strides=strides)
    if isinstance(kind, ScalarKind):
        if isinstance(numba_type, types.Complex):
            number = context.make_complex(builder, numba_type)
            number.real, number.imag = next(parameters), next(parameters)
            return number._getvalue()
        return context.get_data_as_value(builder, numba_type, next(parameters))
    members = [
        _value(context, builder, element, element_type, parameters)
        for element, element_type in zip(kind.elements, numba_type.types, strict=True)
    ]
    return context.make_tuple(builder, numba_type, members)


# ------------------------------------------------------------- place in the grid


@contextmanager
def _place(
    builder: ir.IRBuilder, extent: list[ir.Value], traits: KernelTraits
) -> Iterator[tuple[list[ir.Value], list[ir.Value]]]:
    """Compute what ``grid`` and ``gridsize`` give; the body goes where this yields."""
    zero, one = _i64(0), _i64(1)
    if not extent:
        yield (
            [_grid(builder, axis) for axis in "xyz"],
            [_grid_size(builder, axis) for axis in "xyz"],
        )
        return
    count = len(extent)
    axes = "xyz"[:count][::-1] if traits.uses_grid_only else "xyz"[:count]
    index = [_grid(builder, axis) for axis in axes]
    with ExitStack() as loops:
        if not traits.uses_block:
            pairs = zip(index, extent, strict=True)
            _return_unless(builder, [builder.icmp_signed("<", i, e) for i, e in pairs])
        if traits.uses_grid_only:
            for position, axis in enumerate(axes):
                if axis != "x":
                    walk = _walk(builder, index[position], extent[position], axis)
                    index[position] = loops.enter_context(walk)
        yield index + [zero] * (3 - count), extent + [one] * (3 - count)


def _grid(builder: ir.IRBuilder, axis: str) -> ir.Value:
    block, width, thread = (
        read_register(builder, f"{register}.{axis}") for register in ("ctaid", "ntid", "tid")
    )
    flags = ["nuw", "nsw"]
    return builder.add(builder.mul(block, width, flags=flags), thread, flags=flags)


def _grid_size(builder: ir.IRBuilder, axis: str) -> ir.Value:
    count, width = (read_register(builder, f"{register}.{axis}") for register in ("nctaid", "ntid"))
    return builder.mul(count, width, flags=["nuw", "nsw"])


def _return_unless(builder: ir.IRBuilder, conditions: list[ir.Value]) -> None:
    inside = conditions[0]
    for condition in conditions[1:]:
        inside = builder.and_(inside, condition)
    with builder.if_then(builder.not_(inside)):
        builder.ret_void()


@contextmanager
def _walk(builder: ir.IRBuilder, start: ir.Value, stop: ir.Value, axis: str) -> Iterator[ir.Value]:
    """Repeat the body for `start` and every grid's size after it; `start` is below `stop`.

    Nearly always once. So that nothing is computed ahead for further rounds, LLVM is not told what
    the size of the grid is: it is read at the end of each round, where it cannot be moved from.
    """
    before = builder.block
    loop = builder.append_basic_block("walk")
    after = builder.append_basic_block("walked")
    builder.branch(loop)
    builder.position_at_end(loop)
    index = builder.phi(_i64, "index")
    index.add_incoming(start, before)
    _assume(builder, builder.icmp_signed(">=", index, _i64(0)))
    yield index
    read = ir.FunctionType(ir.IntType(32), [])
    blocks = builder.asm(read, f"mov.u32 $0, %nctaid.{axis};", "=r", [], side_effect=True)
    width = read_register(builder, f"ntid.{axis}")
    flags = ["nuw", "nsw"]
    step = builder.mul(builder.zext(blocks, _i64), width, flags=flags)
    following = builder.add(index, step, flags=flags)
    index.add_incoming(following, builder.block)
    builder.cbranch(builder.icmp_signed("<", following, stop), loop, after)
    builder.position_at_end(after)


def _assume(builder: ir.IRBuilder, condition: ir.Value) -> None:
    assume = builder.module.declare_intrinsic("llvm.assume", fnty=_ASSUME)
    builder.call(assume, [condition])


_ASSUME = ir.FunctionType(ir.VoidType(), [ir.IntType(1)])
