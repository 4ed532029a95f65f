"""PTX of the modules that Numba lowered: link, internalize, check, optimize, write.

Everything that could make LLVM end the process is checked first. These are the pair of architecture
and PTX version (:mod:`targets.cuda.architectures`), the modules themselves (LLVM's verifier), and
calls of functions that do not exist on a device.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import cache
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import cgutils

from kerneldsl.contract import CompileOptions
from kerneldsl.errors import CompileError
from kerneldsl.language.reserved import ROUND_TO_BFLOAT16
from kerneldsl.lowering.captured_arrays import is_captured
from kerneldsl.lowering.float_conversions import define_conversions
from kerneldsl.lowering.numba_internals.llvm_modules import run_passes
from kerneldsl.lowering.quotients import count_divisions, division_definitions
from kerneldsl.lowering.shifts import shift_definitions
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.formatting import ascii_identifier
from targets.cuda.architectures import Architecture, PtxVersion
from targets.cuda.compile import libdevice
from targets.cuda.compile.addresses.facts import NO_FACTS, ParameterFacts
from targets.cuda.compile.float_conversions import write_conversion
from targets.cuda.compile.math_symbols import C_FUNCTIONS, is_unselectable, rename_math, user_name
from targets.cuda.compile.numba_device import TRIPLE, initialize_nvptx
from targets.cuda.compile.pipeline import Pipeline, Stage
from targets.cuda.compile.ptx_lines import count_anew, reveal_copies
from targets.cuda.compile.ptxas_workarounds import keep_guards, work_around_ptxas
from targets.cuda.compile.square_roots import (
    ROOTS,
    count_roots,
    restore_roots,
    root_definitions,
    with_declared_roots,
)
from targets.cuda.compile.unused_exchanges import without_unused_exchanges
from targets.cuda.intrinsics.by_architecture import definitions, is_by_architecture
from targets.cuda.intrinsics.memory import DYNAMIC_SHARED

__all__ = [
    "Linked",
    "MissingFunction",
    "entry_attributes",
    "entry_identifier",
    "link",
    "with_float_flags",
    "write_ptx",
]

#: Functions that the driver provides to every module.
_SYSTEM_CALLS = frozenset({"vprintf"})
#: Names that mean something else in PTX, or in the modules that are written here.
_TAKEN = _SYSTEM_CALLS | C_FUNCTIONS | {DYNAMIC_SHARED, "WARP_SZ"}
#: Instructions without flags. Existing flags mark exact operations
#: (:mod:`kerneldsl.lowering.groups`).
_FLOAT_OPERATION = re.compile(r"= (fadd|fsub|fmul|fdiv|frem|fneg|fcmp) (?!fast|contract|arcp)")
#: A tensor map among the parameters.
_BY_VALUE = re.compile(r"(byval\(\[\d+ x i8\]\) align \d+)")
_FLOAT_CALL = re.compile(r"= call (float|double) ")


class MissingFunction(Exception):
    """A kernel calls a function that no device has; the compiler puts a place to it."""

    def __init__(self, symbol: str) -> None:
        super().__init__(symbol)
        self.symbol = symbol


@dataclass(frozen=True)
class Linked:
    """A kernel's module, complete, with everything internal except its entry."""

    #: The module.
    module: Any
    #: Functions of the module, declarations included.
    symbols: tuple[str, ...]
    #: Functions of libdevice that it calls and that are not linked in yet.
    libdevice_functions: tuple[str, ...]
    #: Functions of other modules that it calls.
    external: tuple[str, ...] = ()
    #: Whether fast-math flags are set.
    is_fast: bool = False


def entry_identifier(name: str, taken: Collection[str] = ()) -> str:
    """Make a valid PTX identifier of a Python name, other than those that are taken.

    Examples
    --------
    >>> entry_identifier("axpy"), entry_identifier("<lambda>"), entry_identifier("größe")
    ('axpy', '_lambda_', 'gr_u00f6_u00dfe')
    """
    identifier = ascii_identifier(name)
    if identifier in _TAKEN or identifier in taken or not identifier.strip("_"):
        identifier += "_kernel"
    return identifier


def entry_attributes(options: CompileOptions) -> dict[str, str]:
    """Return LLVM attributes of an entry; NVPTX writes them as ``.maxntid`` and its like."""
    attributes: dict[str, str] = {}
    if options.launch_bounds is not None:
        names = ("nvvm.maxntid", "nvvm.minctasm", "nvvm.maxclusterrank")
        bounds = (f"{options.launch_bounds[0]},1,1", *map(str, options.launch_bounds[1:]))
        attributes |= zip(names, bounds, strict=False)
    if options.max_registers is not None:
        attributes["nvvm.maxnreg"] = str(options.max_registers)
    if options.fastmath:
        attributes["denormal-fp-math-f32"] = "preserve-sign,preserve-sign"
    return attributes


def link(
    entry_text: str,
    body_texts: Iterable[str],
    entry_name: str,
    options: CompileOptions,
    pipeline: Pipeline,
    external: Collection[str] = (),
) -> Linked:
    """Link an entry with everything it calls; `external` are functions of other modules.

    Only `entry_name` stays visible, and what is filled when the code is loaded.

    Raises `CompileError` where a module is malformed. Raises `MissingFunction` where something is
    called that no device has.
    """
    initialize_nvptx()
    entry_text = _with_attributes(entry_text, entry_name, entry_attributes(options))
    entry_text = _BY_VALUE.sub(r'\1 "nvvm.grid_constant"', entry_text)
    module = _parse(with_declared_roots(entry_text))
    body_texts = tuple(body_texts)
    calls = count_divisions([entry_text, *body_texts]) + count_roots([entry_text])
    for text in body_texts:
        complete = define_conversions(text, write_conversion)
        flagged = rename_math(with_float_flags(complete, options), fastmath=options.fastmath)
        calls += count_roots([flagged])
        try:
            module.link_in(_parse(flagged))
        except RuntimeError as error:
            raise _malformed(error) from error
    functions = _functions(module)
    general = [*division_definitions(functions), *root_definitions(calls)]
    known = [_NATIVE_ROUNDING] if ROUND_TO_BFLOAT16 in functions else []
    if _RESHAPE in functions:
        known.append(_reshape_definition())
    general = pipeline.run(Stage.LLVM, general, calls)
    definitions = [*known, *shift_definitions(functions), *general]
    for definition in definitions:
        module.link_in(_parse(definition))
    if definitions:
        functions = _functions(module)
    declared = [name for name, function in functions.items() if function.is_declaration]
    for name in functions.keys() - {entry_name, *declared}:
        functions[name].linkage = "internal"
        functions[name].add_function_attribute("alwaysinline")
    for variable in module.global_variables:
        if not variable.is_declaration:
            variable.linkage = "external" if is_captured(variable.name) else "internal"
    if options.fastmath:
        module.link_in(_parse(_FLUSH_FLAG))
    try:
        module.verify()
    except RuntimeError as error:
        raise _malformed(error) from error
    return Linked(
        module,
        tuple(functions),
        _libdevice_functions(declared, external),
        tuple(name for name in functions if name in external),
        options.fastmath,
    )


def _functions(module: Any) -> dict[str, Any]:
    return {function.name: function for function in module.functions}


#: Makes libdevice flush subnormal numbers to zero, as fast arithmetic does.
_FLUSH_FLAG = '!llvm.module.flags = !{!0}\n!0 = !{i32 4, !"nvvm-reflect-ftz", i32 1}\n'


#: LLVM has ``cvt.rn.bf16.f32`` for it from compute capability 8.0 on, else integer instructions.
_NATIVE_ROUNDING = f"""
define i16 @{ROUND_TO_BFLOAT16}(float %value) {{
    %rounded = fptrunc float %value to bfloat
    %bits = bitcast bfloat %rounded to i16
    ret i16 %bits
}}
"""


def _libdevice_functions(declared: Iterable[str], external: Collection[str]) -> tuple[str, ...]:
    names = []
    for name in declared:
        if name in _SYSTEM_CALLS or name in external:
            continue
        if name.startswith("llvm.") and not is_unselectable(name):
            continue
        if is_by_architecture(name) or name in ROOTS:
            continue
        if not name.startswith("__nv_"):
            raise MissingFunction(name)
        names.append(name)
    return tuple(sorted(names))


def write_ptx(
    linked: Linked,
    entry_name: str,
    arch: Architecture,
    ptx_version: PtxVersion,
    pipeline: Pipeline,
    *,
    views_shared: bool = False,
    facts: ParameterFacts = NO_FACTS,
    optimize: bool = True,
) -> tuple[str, str]:
    """Optimize a module and write it.

    With `views_shared` shared memory is looked at as vectors. Without `optimize` functions are
    inlined, and nothing else is done. The module is changed. The result is the PTX, and the
    optimized module as text.

    Raises `LibdeviceMissingError` where a function of libdevice is called and there is no
    libdevice.
    """
    machine = _target_machine(arch.name, ptx_version, 3 if optimize else 0)
    module = linked.module
    module.triple = TRIPLE
    module.data_layout = _layout(arch.name, ptx_version)
    _define_by_architecture(linked, arch, ptx_version)
    if linked.libdevice_functions:
        path = libdevice.require_libdevice(user_name(linked.libdevice_functions[0]), None)
        cut_out = libdevice.cut_out(
            path,
            linked.libdevice_functions,
            module.data_layout,
            has_exact_roots=not linked.is_fast,
        )
        module.link_in(cut_out)
        libdevice.check_complete(module, path)
        for function in module.functions:
            if not function.is_declaration and function.name.startswith("__"):
                function.linkage = "internal"
    _mark_convergent(module)
    _optimize(module, machine, speed_level=3 if optimize else 0)
    if optimize:
        module = without_unused_exchanges(module, machine, _parse)
    if not ROOTS.keys().isdisjoint(linked.symbols) and restore_roots(module):
        _optimize(module, machine, speed_level=1)
    if views_shared and optimize:
        # The back end replaces generic addresses by those of shared memory. LLVM knows the
        # alignment of these alone; without it, vectors are read number by number.
        machine.emit_assembly(module)
        _optimize(module, machine, speed_level=1)
    _name_leftovers(module, entry_name)
    written = str(module)
    if (rewritten := pipeline.run(Stage.OPTIMIZED, keep_guards(written))) != written:
        module = _parse(rewritten)
        written = str(module)
    text = reveal_copies(count_anew(machine.emit_assembly(module)))
    text = work_around_ptxas(pipeline.run(Stage.PTX, text, facts))
    return text, count_anew(written)


def _optimize(module: Any, machine: Any, *, speed_level: int) -> None:
    tuning = llvm.create_pipeline_tuning_options(speed_level=speed_level)
    tuning.loop_vectorization = False
    builder = llvm.create_pass_builder(machine, tuning)
    run_passes(builder.getModulePassManager(), module, builder)


def _mark_convergent(module: Any) -> None:
    """Mark all functions of a module with barriers or exchanges as convergent, as Clang does.

    LLVM's CallSiteSplitting copies a call into both sides of an earlier branch, with everything
    that its block has before it. It leaves convergent calls alone, but does not look for a barrier
    or an exchange in what it copies. Later passes of LLVM remove the mark from other functions.
    """
    functions = _functions(module)
    declared = {name: each for name, each in functions.items() if each.is_declaration}
    if any(_is_convergent(name, each) for name, each in declared.items()):
        for name in functions.keys() - declared:
            functions[name].add_function_attribute("convergent")


#: Whether each intrinsic of LLVM is convergent, by name.
_convergent: dict[str, bool] = {}


def _is_convergent(name: str, declared: Any) -> bool:
    if name in _convergent:
        return _convergent[name]
    found = any(b"convergent" in each.split() for each in declared.attributes)
    if name.startswith("llvm."):
        _convergent[name] = found
    return found


def _define_by_architecture(linked: Linked, arch: Architecture, ptx_version: PtxVersion) -> None:
    module, symbols = linked.module, list(filter(is_by_architecture, linked.symbols))
    if not symbols:
        return
    defined = _parse(definitions(symbols, arch, ptx_version))
    defined.triple, defined.data_layout = module.triple, module.data_layout
    module.link_in(defined)
    for symbol in symbols:
        function = module.get_function(symbol)
        function.linkage = "internal"
        function.add_function_attribute("alwaysinline")


def _name_leftovers(module: Any, entry_name: str) -> None:
    """Rename what was not inlined (recursion): Numba's names hold a counter of the process."""
    number = 0
    for function in module.functions:
        if (
            function.name != entry_name
            and not function.is_declaration
            and (function.name.startswith("_ZN"))
        ):
            function.name = f"{entry_name}_function{number}"
            number += 1


@cache
def _target_machine(arch: str, ptx_version: PtxVersion, level: int = 3) -> Any:
    target, (major, minor) = initialize_nvptx(), ptx_version
    return target.create_target_machine(cpu=arch, features=f"+ptx{major}{minor}", opt=level)


@cache
def _layout(arch: str, ptx_version: PtxVersion) -> str:
    return str(_target_machine(arch, ptx_version).target_data)


def _parse(text: str) -> Any:
    try:
        return llvm.parse_assembly(text)
    except RuntimeError as error:
        raise _malformed(error) from error


def _malformed(error: Exception) -> CompileError:
    return CompileError(
        f"the kernel was lowered to a module that LLVM refuses: {str(error).strip()}",
        limit="This is a bug in kerneldsl, not in the kernel",
        remedy="Report it with the kernel",
    )


def _with_attributes(text: str, entry_name: str, attributes: dict[str, str]) -> str:
    """Add attributes to the entry's definition; llvmlite knows no attributes with values."""
    if not attributes:
        return text
    written = " ".join(f'"{key}"="{value}"' for key, value in attributes.items())
    pattern = re.compile(rf'^(define [^@\n]*@"?{re.escape(entry_name)}"?\([^\n]*\))', re.M)
    return pattern.sub(lambda match: f"{match[1]} {written}", text, count=1)


def with_float_flags(text: str, options: CompileOptions) -> str:
    """Say what LLVM may do with floating-point operations; Numba has left that open."""
    if options.fastmath:
        text = _FLOAT_OPERATION.sub(r"= \1 fast ", text)
        return _FLOAT_CALL.sub(r"= call fast \1 ", text)
    if options.contract:
        return _FLOAT_OPERATION.sub(r"= \1 contract ", text)
    return text


#: Numba's function for ``array.reshape``, of its runtime on a host. It computes the strides of
#: another shape. Numba types it for arrays of layout C alone: their elements lie side by side.
_RESHAPE = "numba_attempt_nocopy_reshape"
_I32, _I64 = ir.IntType(32), ir.IntType(64)
_NUMBERS = _I64.as_pointer()


def _reshape_definition() -> str:
    """Return the module that defines it: 0 if the numbers of elements differ, else 1."""
    module = ir.Module()
    kinds = [_I64, _NUMBERS, _NUMBERS, _I64, _NUMBERS, _NUMBERS, _I64, _I32]
    function = ir.Function(module, ir.FunctionType(_I32, kinds), _RESHAPE)
    axes, shape, _, new_axes, new_shape, strides, itemsize, _ = function.args
    builder = ir.IRBuilder(function.append_basic_block())
    size = cgutils.alloca_once_value(builder, itemsize)
    with cgutils.for_range(builder, axes) as loop:
        extent = builder.load(builder.gep(shape, [loop.index]))
        builder.store(builder.mul(builder.load(size), extent), size)
    stride = cgutils.alloca_once_value(builder, itemsize)
    with cgutils.for_range(builder, new_axes) as loop:
        axis = builder.sub(builder.sub(new_axes, loop.index), _I64(1))
        builder.store(builder.load(stride), builder.gep(strides, [axis]))
        extent = builder.load(builder.gep(new_shape, [axis]))
        builder.store(builder.mul(builder.load(stride), extent), stride)
    is_same = builder.icmp_signed("==", builder.load(size), builder.load(stride))
    builder.ret(builder.zext(is_same, _I32))
    return str(module)
