"""Modules of PTX: their statements and functions, and several as one."""

from __future__ import annotations

import pytest

from targets.cuda.compile.ptx_modules import PtxModuleError, join_modules, parse_module
from tests.support.linked_code import PTX

_HEADER = ".version {}\n.target sm_75\n.address_size 64\n"
_KERNEL = ".visible .entry k()\n{ call one; ret; }\n"


def test_a_module_is_its_statements():
    module = parse_module(PTX.decode())
    assert (module.version, module.target) == ((6, 3), "sm_50")
    assert list(module.functions) == ["times", "weigh", "is_even", "narrow", "add_to", "swap"]
    assert module.entries == ("kernel_of_its_own",)
    assert list(module.definitions) == ["quarter", *module.functions]
    weigh = module.functions["weigh"]
    assert (weigh.parameters, weigh.results) == ((32, 32), (32,))
    assert module.functions["swap"].results == ()
    assert "".join(module.statements) == PTX.decode().partition("_size 64")[2].rstrip()


def test_heads_of_functions():
    module = parse_module(
        _HEADER.format("8.0")
        + """
    .extern .func (.param .b64 r) elsewhere (.param .b32 a) ;
    .extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);
    .weak .func nothing () { ret; }
    .visible .func bare { ret; }
    .visible .func (.reg .u32 r) old (.reg .u32 a) { mov.u32 r, a; ret; }
    .visible .func (.param .align 8 .b8 r[16]) pair (.param .align 8 .b8 p[16]) { ret; }
    .visible .func quits (.param .b64 .ptr .global .align 4 p) .noreturn { trap; }
    .global .align 4 .u32 table[2] = {1, 2};
    .visible .const .align 1 .b8 brace = 125; // }
    .extern .shared .align 16 .b8 room[];
    """
    )
    assert {name: each.parameters for name, each in module.functions.items()} == {
        "nothing": (),
        "bare": (),
        "old": (None,),
        "pair": (None,),
        "quits": (64,),
    }
    assert list(module.called()) == ["elsewhere"]
    assert set(module.definitions) == {*module.functions, "table", "brace"}


def test_modules_that_call_each_other():
    first = _HEADER.format("7.0") + (
        ".extern .func (.param .b32 r) two(.param .b32 a);\n"
        ".visible .func (.param .b32 r) one(.param .b32 a)\n{ call (r), two, (a); ret; }\n"
    )
    second = _HEADER.format("8.4") + (
        ".visible .func (.param .b32 r) two(.param .b32 a)\n{ ret; }\n"
    )
    kernel = (
        "// head\n"
        + _HEADER.format("7.8")
        + (".extern .func (.param .b32 r) one(.param .b32 a);\n" + _KERNEL)
    )
    modules = {"first": parse_module(first), "second": parse_module(second)}
    text = join_modules(kernel, modules, ["one"])
    assert text.startswith("// head\n.version 8.4\n.target sm_75\n")
    assert ".extern" not in text
    assert ".visible .func" not in text
    assert text.count(" two(") == 2  # declared before it is defined
    del modules["second"]
    with pytest.raises(PtxModuleError, match="first calls two, which is not defined"):
        join_modules(kernel, modules, ["one"])


def test_information_for_debuggers_is_left_out():
    linked = _HEADER.format("7.0") + (
        '\t.file\t1 "/a/b.cu", 17, 20\n'
        ".visible .func one()\n{\n\t.loc\t1 3 5\n\tret;\n}\n"
        "\t.section\t.debug_str\n{\n.b8 7\n}\n"
        '\t.file\t2 "/a/c.cu"\n'
    )
    text = join_modules(_HEADER.format("7.0") + _KERNEL, {"f": parse_module(linked)}, [])
    assert ".func one()" in text
    assert not any(word in text for word in (".loc", ".section", ".file"))
