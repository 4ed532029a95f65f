"""Linked functions in the place of their calls: ptxas takes them, and a machine runs them."""

from __future__ import annotations

import re

import pytest

import kerneldsl as kd
from kerneldsl.frontend.linked_code import CodeForm
from targets.cuda.compile.inline_linked import inline_linked
from targets.cuda.compile.nvrtc import CudaText, compile_text
from targets.cuda.compile.ptxas import assemble
from tests.ptx.test_linked import weighing
from tests.support.linked_code import PTX
from tests.support.ptx_machine import run_thread

#: Functions of integers: with a loop, a return in between, narrow types, and a call.
_SOURCE = """
static __device__ __noinline__ int doubled(int n) { return n + n; }

extern "C" {
__device__ int collatz(int n)
{
    int steps = 0;
    if (n < 1) return -1;
    while (n != 1 && steps < 100) {
        n = n % 2 == 0 ? n >> 1 : 3 * n + 1;
        steps++;
    }
    return steps;
}
__device__ int early(int n)
{
    if (n == 0) return 7;
    if (n & 1) return n * 3;
    return n + n;
}
__device__ int calling(int n) { return doubled(n) + 1; }
__device__ short narrow(signed char a, unsigned char b, unsigned short c) { return a + b - c; }
__device__ unsigned long long wide(unsigned long long a, int b) { return (a << 33) + b; }
__device__ void store(int *p, long long i, int value) { if (value & 1) return; p[i] = value; }
__device__ int first(const int *p)
{
    int own[8];
    for (int i = 0; i < 8; i++) own[p[i] & 7] = i;
    return own[*p & 7];
}
}
"""


@pytest.fixture(scope="module")
def code() -> bytes:
    text = CudaText(_SOURCE, "<functions>")
    return compile_text(text, "sm_90", form=CodeForm.PTX, is_relocatable=True).code


def collatz(n):
    steps = 0
    if n < 1:
        return -1
    while n != 1 and steps < 100:
        n = n >> 1 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


def early(n):
    if n == 0:
        return 7
    return n * 3 if n & 1 else n + n


def narrow(a, b, c):
    return ((a + 128) % 256 - 128 + b % 256 - c % 65536 + 32768) % 65536 - 32768


def wide(a, b):
    return ((a << 33) + b) % (1 << 64)


_BODIES = {
    "collatz": (collatz, "int32(int32)"),
    "early": (early, "int32(int32)"),
    "narrow": (narrow, "int16(int8, uint8, uint16)"),
    "wide": (wide, "uint64(uint64, int32)"),
}


def _artifact(kernel, signature="int64[::1]"):
    return kernel.artifact(signature, target="cuda", arch="sm_90")


def _stored(ptx: str, thread: int) -> list[tuple[int, ...]]:
    special = dict.fromkeys(re.findall(r"%(?:n?tid|n?ctaid)\.\w", ptx), 0)
    special |= {"%ntid.x": 64, "%tid.x": thread}
    trace = run_thread(ptx, [0x7F00_0000_0000, 64], special)
    return [values for opcode, _, values in trace if opcode.startswith("st")]


@pytest.mark.parametrize("name", _BODIES)
def test_inlined_functions_compute_what_python_does(name, code):
    body, signature = _BODIES[name]
    function = kd.func(link=code, signature=signature, name=name)(body)
    count = signature.count(",") + 1

    if count == 1:

        @kd.kernel
        def calls(out):
            i = kd.threadIdx.x
            out[i] = function(i)

    elif count == 2:

        @kd.kernel
        def calls(out):
            i = kd.threadIdx.x
            out[i] = function(i, i + 3)

    else:

        @kd.kernel
        def calls(out):
            i = kd.threadIdx.x
            out[i] = function(i * 5, i * 7, i * 9)

    artifact = _artifact(calls)
    assert [each.text for each in artifact.passes if each.name == "inline-linked"] == [
        "1 call inlined"
    ]
    assemble(artifact.ptx, "sm_90")
    for thread in (0, 1, 2, 27, 63):
        given = {1: (thread,), 2: (thread, thread + 3), 3: (thread * 5, thread * 7, thread * 9)}
        (found,) = _stored(artifact.ptx, thread)
        assert found[0] == body(*given[count]) % (1 << 64)


def test_nothing_is_left_of_functions_that_are_inlined(code):
    artifact = _artifact(weighing(PTX), "float32[::1], float32[::1]")
    assert "weigh(" not in artifact.ptx
    assert "times(" in artifact.ptx  # weigh calls it
    assert "swap" not in artifact.ptx
    collatz_of_cuda = kd.func(link=code, signature="int32(int32)", name="collatz")(collatz)

    @kd.kernel
    def calls(out):
        out[0] = collatz_of_cuda(27) + collatz_of_cuda(out.size)

    made = _artifact(calls)
    assert ".func" not in made.ptx
    log = assemble(made.ptx, "sm_90").log
    assert "Function properties for calls" in log
    assert log.count("Function properties for") == 1


def test_calls_in_a_loop_have_labels_of_their_own(code):
    both = {
        name: kd.func(link=code, signature="int32(int32)", name=name)(_BODIES[name][0])
        for name in ("collatz", "early")
    }
    one, two = both["collatz"], both["early"]

    @kd.kernel
    def calls(out):
        i = kd.threadIdx.x
        total = 0
        for k in range(i, i + 3):
            total += one(k) * two(k + 1) + one(total & 63)
        out[i] = total

    artifact = _artifact(calls)
    labels = re.findall(r"^\s*([$\w]+):", artifact.ptx, re.MULTILINE)
    assert len(labels) == len(set(labels)) >= 8
    assemble(artifact.ptx, "sm_90")
    for thread in (0, 1, 27, 63):
        total = 0
        for k in range(thread, thread + 3):
            total += collatz(k) * early(k + 1) + collatz(total & 63)
        assert [values[0] for values in _stored(artifact.ptx, thread)] == [total % (1 << 64)]


def test_names_with_dollars():
    text = PTX.replace(b"is_even", b"is$even$1")

    @kd.func(link=text, signature="bool(int64)", name="is$even$1", pure=True)
    def is_even(n):
        return n % 2 == 0

    @kd.kernel
    def calls(out):
        out[0] = is_even(out.size)

    ptx = _artifact(calls).ptx
    assert ".extern" not in ptx
    assert "is$even$1_rd<3>" in ptx
    assemble(ptx, "sm_90")


def test_a_function_that_returns_nothing(code):
    @kd.func(link=code, signature="void(int32[::1], int64, int32)", name="store")
    def put(p, i, value):
        if value & 1:
            return
        p[i] = value

    @kd.kernel
    def calls(out):
        i = kd.threadIdx.x
        put(out, i, i)
        put(out, i + 1, i + 3)

    artifact = _artifact(calls, "int32[::1]")
    assert "call.uni" not in artifact.ptx
    assert artifact.ptx.count("{ // store") == 2
    assemble(artifact.ptx, "sm_90")


def test_a_function_that_calls_another(code):
    @kd.func(link=code, signature="int32(int32)")
    def calling(n):
        return n + n + 1

    @kd.kernel
    def calls(out):
        out[0] = calling(out.size)

    artifact = _artifact(calls)
    assert "{ // calling" in artifact.ptx
    assert artifact.ptx.count("call.uni") == 1
    assemble(artifact.ptx, "sm_90")


def test_functions_with_a_stack_are_called(code):
    @kd.func(link=code, signature="int32(int32[::1])", name="first")
    def found(p):
        return p[0]

    @kd.kernel
    def calls(out):
        out[0] = found(out)

    artifact = _artifact(calls, "int32[::1]")
    (remark,) = (each for each in artifact.passes if each.name == "inline-linked")
    assert (remark.text, remark.is_missed) == ("1 call not inlined", True)
    assemble(artifact.ptx, "sm_90")


_CALLER = """\t{ // callseq 0, 0
\t.param .b32 \tparam0;
\t.param .b32 \tretval0;
\tst.param.b32 \t[param0], %r1;
\tcall.uni (retval0), f, (param0);
\tld.param.b32 \t%r2, [retval0];
\t} // callseq 0
"""


def _inlined(body: str, caller: str = _CALLER, head: str = "(.param .b32 a)") -> str:
    return inline_linked(
        caller, {"f": f".func (.param .b32 r) f{head}\n{{\n{body}\n}}"}, lambda *_, **__: None
    )


@pytest.mark.parametrize(
    "body",
    [
        ".local .b8 stack[8]; ld.param.u32 %r1, [a]; st.param.b32 [r], %r1; ret;",
        ".reg .b64 %rd<2>; mov.u64 %rd1, a; st.param.b32 [r], 1; ret;",
        ".reg .b16 %rs<2>; ld.param.u32 %rs1, [a]; st.param.b32 [r], 1; ret;",
        ".reg .pred %p<2>; st.param.b32 [r], 1; @%p1 ret;",
        "st.param.b64 [r], 1; ret;",
        "ret;\n" * 401,
    ],
    ids=["stack", "address", "narrow register", "predicated end", "wide result", "long"],
)
def test_functions_that_stay(body):
    assert _inlined(body) == _CALLER


def test_calls_that_stay():
    body = ".reg .b32 %r<2>; ld.param.u32 %r1, [a]; st.param.b32 [r], %r1; ret;"
    assert "call" not in _inlined(body)
    others = [
        _CALLER.replace("[param0]", "[param0+4]"),
        _CALLER.replace("\tcall.uni", "\tst.param.v2.b32 [param0], {%r1, %r2};\n\tcall.uni"),
        _CALLER.replace(", f,", ", g,"),
    ]
    for other in others:
        assert _inlined(body, other) == other
    assert _inlined(body, head="(.param .b32 a, .param .b32 b)") == _CALLER
    assert _inlined(body, head="(.param .align 4 .b8 a[8])") == _CALLER


def test_conversions_in_a_call_stay():
    body = ".reg .b32 %r<2>; ld.param.u32 %r1, [a]; st.param.b32 [r], %r1; ret;"
    caller = _CALLER.replace("\tst.param", "\tcvt.u32.u16 %r1, %rs4;\n\tst.param")
    text = _inlined(body, caller)
    assert "call" not in text
    assert text.index("cvt.u32.u16 %r1, %rs4;") < text.index("%kd_argument0, %r1;")


def test_registers_of_a_function_have_other_names():
    body = (
        ".reg .b32 %r<3>; .reg .b32 temporary; .reg .pred %p<2>;\n"
        "ld.param.u32 %r1, [a]; mov.u32 temporary, %tid.x; setp.eq.u32 %p1, %r1, temporary;\n"
        "@%p1 bra done; add.s32 %r2, %r1, 1; done: st.param.b32 [r+0], %r2; ret;"
    )
    text = _inlined(body)
    inner = text[text.index("{", 5) : text.rindex("}")]
    assert "%f_r<3>" in inner
    assert "mov.u32 f_temporary, %tid.x" in inner
    assert re.findall(r"(?<!\w)%r\d", inner) == ["%r2"]  # where the result goes
    assert "mov.b32 \t%r2, %kd_result;" in text
