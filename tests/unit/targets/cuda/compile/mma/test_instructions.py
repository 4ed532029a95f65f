"""Each product of fragments assembles for each architecture, by the instruction of the table."""

from __future__ import annotations

import pytest
from llvmlite import ir

from kerneldsl.contract import CompileOptions
from targets.cuda.architectures import NEWEST_PTX, choose_ptx_version, parse_arch
from targets.cuda.compile import ptx
from targets.cuda.compile.mma.functions import FUNCTIONS
from targets.cuda.compile.mma.instructions import STEPS
from targets.cuda.compile.pipeline import Pipeline
from targets.cuda.compile.ptxas import assemble
from targets.cuda.intrinsics.by_architecture import call_by_architecture
from targets.cuda.intrinsics.memory import SHARED_SPACE
from tests.support.extent import full_beyond

_ARCHS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a")
_I32, _FLOAT = ir.IntType(32), ir.FloatType()
_GLOBAL = 1


def _compiled(arch: str, name: str) -> str:
    """The PTX of a kernel with two calls of a function, the results of which are used."""
    module = ir.Module()
    words = _I32.as_pointer(_GLOBAL)
    entry = ir.Function(module, ir.FunctionType(ir.VoidType(), (words, words)), "entry")
    entry.calling_convention = "ptx_kernel"
    builder = ir.IRBuilder(entry.append_basic_block())
    room = ir.GlobalVariable(module, ir.ArrayType(ir.IntType(8), 4096), "room", SHARED_SPACE)
    room.linkage, room.align = "internal", 128
    room.initializer = ir.Constant(room.value_type, ir.Undefined)
    function, number = FUNCTIONS[name], 0
    result = None
    own = builder.alloca(ir.ArrayType(_I32, 8))

    def word() -> ir.Value:
        nonlocal number
        number += 1
        return builder.load(builder.gep(entry.args[0], [_I32(number)]))

    for place in range(8):
        builder.store(word(), builder.gep(own, [_I32(0), _I32(place)]))
    for _ in range(2):
        args = []
        for kind in function.kind.args:
            if isinstance(kind, ir.DoubleType):
                args.append(builder.uitofp(word(), kind))
            elif not isinstance(kind, ir.PointerType):
                args.append(word())
            elif kind.addrspace == SHARED_SPACE:
                args.append(
                    builder.gep(builder.bitcast(room, kind), [builder.and_(word(), _I32(992))])
                )
            elif kind.addrspace == _GLOBAL:
                args.append(builder.bitcast(entry.args[0], kind))
            else:
                args.append(builder.bitcast(own, kind))
        result = call_by_architecture(builder, name, function.kind.return_type, args)
    for place in range(8):
        value = builder.load(builder.gep(own, [_I32(0), _I32(place)]))
        builder.store(value, builder.gep(entry.args[1], [_I32(place)]))
    if not isinstance(function.kind.return_type, ir.VoidType):
        builder.store(result, builder.gep(entry.args[1], [_I32(8)]))
    builder.ret_void()
    architecture = parse_arch(arch)
    version = choose_ptx_version(architecture, "8.4" if arch == "sm_89" else None)
    pipeline = Pipeline(())
    linked = ptx.link(str(module), (), "entry", CompileOptions(), pipeline)
    return ptx.write_ptx(linked, "entry", architecture, version, pipeline)[0]


def _has(name: str, arch: str) -> bool:
    return name not in STEPS or STEPS[name].form(parse_arch(arch), NEWEST_PTX) is not None


_CELLS = [(name, arch) for name in FUNCTIONS for arch in _ARCHS if _has(name, arch)]


@pytest.mark.parametrize(("name", "arch"), full_beyond(_CELLS, _CELLS[::5]))
def test_each_cell_assembles(name: str, arch: str) -> None:
    text = _compiled(arch, name)
    assembled = assemble(text, arch)
    (resources,) = assembled.resources.values()
    assert resources.spill_bytes == resources.local_bytes == 0
    assert "(C75" not in assembled.log
    if name in STEPS:
        version = (8, 4) if arch == "sm_89" else choose_ptx_version(parse_arch(arch))
        form = STEPS[name].form(parse_arch(arch), version)
        assert form is not None
        shape, *kinds = form.instruction.split(".")
        assert f"mma.sync.aligned.{shape}.row.col" in text
        assert f".{kinds[0]}." in text
