"""What is read of cubins and PTX, against NVIDIA's assembler; damaged files are refused."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache

import pytest

from kerneldsl.errors import DeviceCodeError
from kerneldsl.frontend.linked_code import CodeForm
from targets.cuda.compile.code_image import read_ptx
from targets.cuda.compile.cubin_file import CubinFile, DeclaredParameter, Entry, read_cubin
from targets.cuda.compile.nvrtc import CudaText, compile_text
from targets.cuda.compile.ptxas import assemble
from tests.support.extent import full_beyond

SOURCE = """
struct Pack { char bytes[100]; };
__device__ __noinline__ int helper(int x) { return x * x + threadIdx.x; }
extern "C" __global__ void __launch_bounds__(256)
many(float *x, double d, short s, Pack pack, bool last) {
    __shared__ float room[77];
    float own[100];
    for (int i = 0; i < 100; i++) own[i] = x[i * threadIdx.x];
    room[threadIdx.x % 77] = d;
    __syncthreads();
    x[0] = room[s] + pack.bytes[3] + last + own[s] + helper(s);
}
extern "C" __global__ void one(float *x) { *x = 1; }
extern "C" __global__ void none() {}
template<class T> __global__ void scale(T *x) { *x *= 2; }
"""
PARAMETERS = {
    "many": [(0, 8), (8, 8), (16, 2), (18, 100), (118, 1)],
    "one": [(0, 8)],
    "none": [],
    "_Z5scaleIdEvPT_": [(0, 8)],
}
ARCHITECTURES = ["sm_75", "sm_80", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_120"]


@cache
def _code(arch: str, form: CodeForm) -> bytes:
    source = CudaText(SOURCE, "<test>")
    return compile_text(source, arch, form=form, expressions=["scale<double>"]).code


def _declared(entries: dict[str, Entry]) -> dict[str, list[tuple[int, int]]]:
    return {
        name: [(each.offset, each.nbytes) for each in entry.parameters]
        for name, entry in entries.items()
    }


@pytest.mark.parametrize("arch", full_beyond(ARCHITECTURES, ["sm_75", "sm_90a", "sm_120"]))
def test_a_cubin_says_what_the_assembler_said(arch: str) -> None:
    found = read_cubin(_code(arch, CodeForm.CUBIN), "test.cubin")
    assert found.number == int(arch[3:].rstrip("a"))
    assert _declared(dict(found.entries)) == PARAMETERS
    said = assemble(_code(arch, CodeForm.PTX).decode(), arch).resources
    for name, entry in found.entries.items():
        resources = entry.resources
        assert resources is not None
        bounded = min(said[name].max_block_threads, 256 if name == "many" else 1024)
        assert resources.spill_bytes in (None, said[name].spill_bytes)
        assert replace(resources, spill_bytes=0) == replace(
            said[name], spill_bytes=0, max_block_threads=bounded
        )


def test_ptx_declares_the_same() -> None:
    found = read_ptx(_code("sm_90", CodeForm.PTX).decode(), "test.ptx")
    assert _declared(dict(found)) == PARAMETERS
    # A cubin does not say which parameters are floats.
    assert [each.is_float for each in found["many"].parameters] == [False, True, False, None, False]


def test_pointers_of_ptx_may_say_where_they_point() -> None:
    text = """.version 8.0 .target sm_80 .address_size 64
    // .entry commented(.param .u32 x)
    .visible .entry f(
        .param .u64 .ptr .global .align 16 x, /* and, in a comment */
        .param .u64 .ptr .align 1 y,
        .param .b8 z
    ) .maxntid 256, 1, 1 { ret; }"""
    assert _declared(dict(read_ptx(text, "test.ptx"))) == {"f": [(0, 8), (8, 8), (16, 1)]}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("__global__ void f() {}", "test.ptx is not PTX. PTX begins with .version and .target"),
        (".version 8.0\n.target sm_80\n", "test.ptx has no kernel"),
        (
            ".version 8.0\n.target sm_80\n.entry f(.param u64 x) {}",
            "f of test.ptx declares the parameter '.param u64 x'",
        ),
        (
            ".version 8.0\n.target sm_80\n.entry f(.param .u64 x,",
            "test.ptx is not whole: its last function has no end. It has 50 characters",
        ),
        (
            ".version 8.0\n.target sm_80\n.entry f(.param .u64 x) { ret;",
            "test.ptx is not whole: its last function has no end",
        ),
    ],
)
def test_what_is_not_ptx(text: str, told: str) -> None:
    with pytest.raises(DeviceCodeError) as caught:
        read_ptx(text, "test.ptx")
    assert told in str(caught.value)


def test_every_truncated_cubin_is_refused() -> None:
    whole = _code("sm_90", CodeForm.CUBIN)
    for length in [*range(4, 200), *range(200, len(whole), 97)]:
        with pytest.raises(DeviceCodeError, match=r"test\.cubin is not a whole cubin") as caught:
            read_cubin(whole[:length], "test.cubin")
        assert f"It has {length} bytes" in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"\x7fEL", b"garbage, and more of it"])
def test_what_is_neither_ptx_nor_a_cubin(data: bytes) -> None:
    with pytest.raises(DeviceCodeError) as caught:
        read_cubin(data, "test.cubin")
    said = f"test.cubin is neither PTX nor a cubin: it begins with {data[:8]!r}. PTX is text"
    assert str(caught.value).startswith(said)


def test_a_damaged_cubin_is_read_or_refused() -> None:
    whole, generator = _code("sm_90", CodeForm.CUBIN), random.Random(0)
    for _ in range(2000):
        damaged = bytearray(whole)
        for _ in range(generator.randint(1, 8)):
            damaged[generator.randrange(len(damaged))] = generator.randrange(256)
        try:
            found = read_cubin(bytes(damaged), "test.cubin")
        except DeviceCodeError:
            continue
        assert isinstance(found, CubinFile)
        for entry in found.entries.values():
            assert all(isinstance(each, DeclaredParameter) for each in entry.parameters)


def test_an_object_of_the_host_is_no_cubin() -> None:
    head = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x01\x00\x3e\x00"
    with pytest.raises(DeviceCodeError, match="it is for the ELF machine 62"):
        read_cubin(head.ljust(64, b"\0"), "test.o")
