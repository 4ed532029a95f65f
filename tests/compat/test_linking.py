"""``link=`` and ``cuda.declare_device``."""

from __future__ import annotations

import numba
import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl import cuda
from kerneldsl.compat.numba_cuda.errors import LinkerError, NvrtcError
from kerneldsl.kernels.exported import OFFLINE
from targets.cuda.compile.ptx_compiler import PtxCompiler
from tests.support.targets import require

HEAD = ".version 6.5\n.target sm_50\n.address_size 64\n"


def ptx_of(name, *, called="", factor=2):
    """Return PTX of a function with numba's ABI: it stores its result, and returns 0."""
    inner = "shl.b32 %r2, %r1, 1;" if factor == 2 else "mul.lo.s32 %r2, %r1, 3;"
    declared = ""
    if called:
        head = "(.param .b32 r) {} (.param .b64 a, .param .b32 b)"
        declared = f".extern .func {head.format(called)};\n"
        inner = (
            "{ .param .b64 p0; .param .b32 p1; .param .b32 q; st.param.b64 [p0], %rd1;"
            f" st.param.b32 [p1], %r1; call.uni (q), {called}, (p0, p1); }}"
            " ld.u32 %r2, [%rd1]; shl.b32 %r2, %r2, 1;"
        )
    return f"""{HEAD}{declared}
.visible .func (.param .b32 out) {name}(.param .b64 {name}_0, .param .b32 {name}_1)
{{
	.reg .b32 	%r<4>;
	.reg .b64 	%rd<2>;
	ld.param.u64 	%rd1, [{name}_0];
	ld.param.u32 	%r1, [{name}_1];
	{inner}
	st.u32 	[%rd1], %r2;
	mov.u32 	%r3, 0;
	st.param.b32	[out+0], %r3;
	ret;
}}
"""


def kernel_of(called, **options):
    @cuda.jit(**options)
    def kernel(r, x):
        i = cuda.grid(1)
        if i < r.size:
            r[i] = called(x[i])

    return kernel


def ptx(kernel):
    return kernel.ptx("int32[::1], int32[::1]", arch="sm_90")


def test_a_declared_function_has_its_name_and_types():
    from numba import types

    made = cuda.declare_device("twice", "int32(int32)", link=cuda.PTXSource(ptx_of("twice")))
    assert made.name == "twice"
    assert (made.sig.args, made.sig.return_type) == ((types.int32,), types.int32)


@pytest.mark.parametrize("collect", [lambda each: each, lambda each: [each], lambda each: {each}])
def test_code_of_the_function(collect):
    code = cuda.PTXSource(ptx_of("twice").encode())
    text = ptx(kernel_of(cuda.declare_device("twice", "int32(int32)", link=collect(code))))
    assert "shl.b32" in text
    assert ".entry kernel" in text


def test_code_of_the_kernel(tmp_path):
    path = tmp_path / "twice.ptx"
    path.write_text(ptx_of("twice"))
    bare = cuda.declare_device("twice", "int32(int32)")
    assert "shl.b32" in ptx(kernel_of(bare, link=[str(path)]))
    other = cuda.PTXSource(ptx_of("twice", factor=3))
    assert "mul.lo.s32" in ptx(kernel_of(bare, link=other))
    with pytest.raises(kd.DeviceCodeError, match="no code is linked that defines it"):
        ptx(kernel_of(bare))


def test_arrays_are_passed_as_numba_passes_them():
    """Two null pointers, the numbers of elements and of bytes, the address, extents, strides."""
    names = ", ".join(f".param .b64 last_{number}" for number in range(8))
    text = f"""{HEAD}
.visible .func (.param .b32 out) last({names})
{{
	.reg .b32 	%r<2>;
	.reg .b64 	%rd<6>;
	ld.param.u64 	%rd1, [last_0];
	ld.param.u64 	%rd2, [last_5];
	ld.param.u64 	%rd3, [last_6];
	ld.param.u64 	%rd4, [last_7];
	sub.s64 	%rd3, %rd3, 1;
	mad.lo.s64 	%rd5, %rd3, %rd4, %rd2;
	ld.u32 	%r1, [%rd5];
	st.u32 	[%rd1], %r1;
	mov.u32 	%r1, 0;
	st.param.b32	[out+0], %r1;
	ret;
}}
"""
    last = cuda.declare_device("last", "int32(int32[:])", link=cuda.PTXSource(text))

    @cuda.jit
    def kernel(r, x):
        r[cuda.grid(1)] = last(x[::2])

    assert "mad.lo.s64" in ptx(kernel)
    two = cuda.declare_device("last", "int32(int32[:,:])", link=cuda.PTXSource(text))

    @cuda.jit
    def of_two_axes(r, x):
        r[cuda.grid(1)] = two(x)

    with pytest.raises(kd.DeviceCodeError, match="last is declared as int32"):
        of_two_axes.ptx("int32[::1], int32[:, ::1]", arch="sm_90")


def test_several_files_call_each_other():
    link = [cuda.PTXSource(ptx_of("twice")), cuda.PTXSource(ptx_of("four", called="twice"))]
    text = ptx(kernel_of(cuda.declare_device("four", "int32(int32)", link=link)))
    assert text.count("shl.b32") >= 2


def test_code_with_instructions_of_one_architecture():
    """Kernels with code in text are compiled for the architecture of the device alone."""
    text = ptx_of("twice").replace(".version 6.5\n.target sm_50", ".version 8.0\n.target sm_90a")
    text = text.replace("\tst.u32", "\tsetmaxnreg.dec.sync.aligned.u32 40;\n\tst.u32")
    kernel = kernel_of(cuda.declare_device("twice", "int32(int32)", link=cuda.PTXSource(text)))
    compiler = PtxCompiler("cuda")
    traits = kernel._dispatcher.state().traits
    assert [compiler.launch_arch(traits, each) for each in ("sm_80", "sm_90", "sm_120")] == [
        "sm_80",
        "sm_90a",
        "sm_120a",
    ]
    found = kernel.ptx("int32[::1], int32[::1]", arch="sm_90a")
    assert ".target sm_90a" in found
    assert "setmaxnreg" in found
    with pytest.raises(kd.DeviceCodeError, match="PTX for sm_90a"):
        ptx(kernel)
    link = [cuda.PTXSource(ptx_of("twice")), cuda.Cubin(b"\x7fELF")]
    mixed = kernel_of(cuda.declare_device("twice", "int32(int32)", link=link))
    traits = mixed._dispatcher.state().traits
    assert compiler.launch_arch(traits, "sm_90") == "sm_90"


def test_types_are_compared_with_the_code():
    code = cuda.PTXSource(ptx_of("twice"))
    of_c = cuda.declare_device("twice", "int32(int32)", link=code, abi="c")
    with pytest.raises(kd.DeviceCodeError, match="twice is declared as int32"):
        ptx(kernel_of(of_c))


def test_a_cpu_says_what_to_write():
    called = cuda.declare_device("twice", "int32(int32)", link=cuda.PTXSource(ptx_of("twice")))
    x = np.arange(3, dtype=np.int32)
    with (
        kd.use("cpu"),
        pytest.raises(kd.TargetUnavailableError, match=r"twice has code for a GPU alone.*kd\.func"),
    ):
        kernel_of(called)[1, 3](np.zeros_like(x), x)


@pytest.mark.parametrize(
    ("link", "error", "match"),
    [
        ("code", RuntimeError, "with no extension"),
        ("code.cuh", RuntimeError, r"with extension \.cuh"),
        ("missing.ptx", LinkerError, "missing.ptx not found"),
    ],
)
def test_files_that_cannot_be_linked(link, error, match):
    with pytest.raises(error, match=match):
        kernel_of(abs, link=[link])


def test_errors_are_those_of_numba():
    @cuda.jit
    def kernel(x):
        bar(x[0])

    bar = cuda.declare_device(
        "bar", "void(int32)", link=cuda.CUSource('extern "C" __device__ int bar() { SYNTAX }')
    )
    with pytest.raises(NvrtcError, match='"SYNTAX" is undefined') as info:
        cuda.compile_ptx(kernel.py_func, "void(int32[::1])")
    assert isinstance(info.value, LinkerError)
    assert isinstance(info.value.__cause__, kd.DeviceCodeError)
    bar = cuda.declare_device("bar", "void(int32)", link=cuda.PTXSource(ptx_of("twice")))
    with pytest.raises(LinkerError, match="has no function bar") as info:
        cuda.compile_ptx(kernel.py_func, "void(int32[::1])")


RESULTS = {
    "float16": ("unsigned short *out", "*out = 0x4248", np.float16(3.140625)),
    "complex64": ("float *out", "out[0] = 1.5f, out[1] = -2", np.complex64(1.5 - 2j)),
    "boolean": ("unsigned char *out", "*out = 1", True),
    "int8": ("signed char *out", "*out = -3", -3),
}


@pytest.mark.parametrize("kind", RESULTS)
def test_numbers_that_are_returned_by_address(kind):
    parameter, store, value = RESULTS[kind]
    text = f'extern "C" __device__ int number({parameter}) {{ {store}; return 0; }}'
    number = cuda.declare_device("number", f"{kind}()", link=cuda.CUSource(text))

    @cuda.jit
    def kernel(out):
        out[0] = number()

    out = np.zeros(1, type(value) if isinstance(value, np.generic) else np.int64)
    cuda.compile_ptx(kernel.py_func, (numba.typeof(out),))
    require("cuda")
    with kd.use("cuda"):
        kernel[1, 1](out)
    assert out[0] == value


def test_warnings_of_the_compiler_are_shown():
    text = 'extern "C" __device__ int bar(int *out) { int unused; *out = 1; return 0; }'
    bar = cuda.declare_device("bar", "int32()", link=cuda.CUSource(text, name="bar.cu"))

    def kernel(x):
        x[0] = bar()

    with pytest.warns(kd.KernelWarning, match="log messages of <bar.cu>") as found:
        cuda.compile_ptx(kernel, "void(int32[::1])")
    assert [str(each.message).count("never referenced") for each in found] == [1]


def test_what_is_refused():
    with pytest.raises(TypeError, match="Return type must be provided"):
        cuda.declare_device("twice", "(int32,)")
    with pytest.raises(NotImplementedError, match="Unsupported ABI: fast"):
        cuda.declare_device("twice", "int32(int32)", abi="fast")
    with pytest.raises(NotImplementedError, match=r"passes float32\[:\].*the ABI 'numba'"):
        cuda.declare_device("total", "float32(float32[:])", abi="c")
    for sig in ("float32(float16)", "int32(complex64)"):
        with pytest.raises(NotImplementedError, match="return any number"):
            cuda.declare_device("narrow", sig)
    with pytest.raises(NotImplementedError, match="passes float16"):
        cuda.declare_device("narrow", "float16()", abi="c")
    with pytest.raises(NotImplementedError, match="calls no function when it loads"):
        cuda.CUSource("", setup_callback=print)
    with pytest.raises(ValueError, match="link keyword invalid for device function"):
        cuda.jit(device=True, link=["twice.ptx"])(lambda x: x)


#: Functions that take pointers, with C's ABI and with numba's; `place` returns one.
POINTERS = """
extern "C" __device__ void fill(int* x, int value) { *x = value; }
extern "C" __device__ int half(float* out, float* x) { *out = *x / 2; return 0; }
extern "C" __device__ int place(int** out, int* x) { *out = x; return 0; }
"""


def functions_of_pointers():
    from numba import types

    code = cuda.CUSource(POINTERS)
    number, single = types.CPointer(types.int32), types.CPointer(types.float32)
    fill = cuda.declare_device("fill", types.void(number, types.int32), link=code, abi="c")
    half = cuda.declare_device("half", types.float32(single), link=code)
    return fill, half, cuda.declare_device("place", number(number), link=code)


def pointing(view):
    fill, half, place = functions_of_pointers()

    @cuda.jit
    def kernel(x, y, equal):
        i = cuda.grid(1)
        if i < len(x):
            at = view(x[i:])
            fill(at, i + 1)
            own = cuda.local.array(1, np.float32)
            own[0] = i
            y[i] = half(view(own))
            equal[i] = place(at) + 4 * (len(x) - i) == place(view(x[len(x) :]))

    return kernel


@cuda.jit(device=True)
def itself(x):
    return x


@pytest.mark.parametrize("with_cffi", [False, True])
def test_pointers_are_addresses_of_arrays(with_cffi):
    require("cuda")
    view = pytest.importorskip("cffi").FFI().from_buffer if with_cffi else itself
    x, y, equal = np.full(70, -9, np.int32), np.full(70, np.nan, np.float32), np.zeros(70, bool)
    with kd.use("cuda"):
        pointing(view)[3, 32](x, y, equal)
    assert x.tolist() == list(range(1, 71))
    assert y.tolist() == [i / 2 for i in range(70)]
    assert equal.all()


def test_an_array_of_another_dtype_is_no_such_pointer():
    fill, *_ = functions_of_pointers()

    @cuda.jit
    def kernel(x):
        fill(x, 1)

    with pytest.raises(kd.KernelTypingError, match=r"fill: a0 is declared as int32\[::1\]"):
        kernel.ptx("int64[::1]", arch="sm_90")


@pytest.mark.parametrize("is_cooperative", [False, True])
def test_code_that_waits_for_the_grid_is_launched_cooperatively(is_cooperative):
    code = cuda.PTXSource(ptx_of("twice"))
    twice = cuda.declare_device("twice", "int32(int32)", code, use_cooperative=is_cooperative)
    found = kernel_of(twice).specialization("int32[::1], int32[::1]", **OFFLINE)[1]
    assert found.traits.syncs_grid is is_cooperative
