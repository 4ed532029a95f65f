"""A module is left without instructions once its text is written."""

from __future__ import annotations

from typing import Any

import pytest
from llvmlite import ir

from kerneldsl.lowering.numba_internals.device_code import ModuleLibrary
from kerneldsl.lowering.numba_internals.host_code import HostLibrary
from kerneldsl.lowering.numba_internals.llvm_modules import module_text


@pytest.fixture
def module() -> ir.Module:
    module = ir.Module("loop")
    i64 = ir.IntType(64)
    function = ir.Function(module, ir.FunctionType(i64, [i64]), "count")
    start, loop, end = (function.append_basic_block(name) for name in ("start", "loop", "end"))
    ir.IRBuilder(start).branch(loop)
    builder = ir.IRBuilder(loop)
    number = builder.phi(i64)
    number.add_incoming(i64(0), start)
    number.add_incoming(builder.add(number, i64(1)), loop)
    builder.cbranch(builder.icmp_signed("<", number, function.args[0]), loop, end)
    ir.IRBuilder(end).ret(number)
    return module


def _host() -> Any:
    return HostLibrary("count", module_text)


def _device() -> Any:
    return ModuleLibrary(None, "count")


@pytest.mark.parametrize("library_of", [_host, _device])
def test_instructions_are_dropped_with_their_text_kept(module, library_of):
    library = library_of()
    library.add_ir_module(module)
    assert "icmp slt i64" in library.get_llvm_str()
    assert [list(function.blocks) for function in module.functions] == [[]]
