"""Which instruction each atomic operation becomes, on every architecture."""

from __future__ import annotations

import re
from typing import Any

import pytest

import kerneldsl as kd
from kerneldsl.contract import ArrayPromises, Promises
from kerneldsl.errors import KernelTypingError
from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.language.intrinsics.atomics import ATOMIC_ARITHMETIC, ATOMIC_BITWISE
from targets.cuda.compile.compiler import compile_kernel
from tests.ptx.helpers import (
    ARCH_PARAMETERS,
    ASSEMBLED_ARCHS,
    assemble_together,
    body_of,
    compile_ptx,
    lower,
    specialize,
)

_PTX = {
    "int32": "s32",
    "int64": "s64",
    "uint32": "u32",
    "uint64": "u64",
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
}


def arithmetic(x, out):
    i = kd.grid(1)
    out[0] = kd.atomic.add(x, i, out[1])
    out[2] = kd.atomic.sub(x, i, out[3])
    out[4] = kd.atomic.max(x, i, out[5])
    out[6] = kd.atomic.min(x, i, out[7])
    out[8] = kd.atomic.exch(x, i, out[9])
    out[10] = kd.atomic.cas(x, i, out[11], out[12])


def bitwise(x, out):
    i = kd.grid(1)
    out[0] = kd.atomic.and_(x, i, out[1])
    out[2] = kd.atomic.or_(x, i, out[3])
    out[4] = kd.atomic.xor(x, i, out[5])


def wrapping(x, out):
    i = kd.grid(1)
    out[0] = kd.atomic.inc(x, i, out[1])
    out[2] = kd.atomic.dec(x, i, out[3])


def ordered(x, out):
    i = kd.grid(1)
    v = kd.atomic.load(x, i, "acquire", "block")
    kd.atomic.store(out, i, v, "release")
    v = kd.atomic.load(x, i, "seq_cst", "system")
    kd.atomic.store(out, i, v, scope="block")


@pytest.mark.parametrize("arch", ARCH_PARAMETERS)
@pytest.mark.parametrize("dtype", ["int8", "uint16", "float32", "int64"])
def test_ordered_accesses(dtype: str, arch: str) -> None:
    bits = 8 * ELEMENT_TYPES[dtype].nbytes
    body = body_of(compile_ptx(ordered, f"{dtype}[::1], {dtype}[::1]", arch))
    if int(arch[3:].rstrip("a")) >= 70:
        for text in (
            f"ld.acquire.cta.global.b{bits}",
            f"st.release.gpu.global.b{bits}",
            "fence.sc.sys",
            f"ld.acquire.sys.global.b{bits}",
            f"st.relaxed.cta.global.b{bits}",
        ):
            assert body.count(text) == 1, text
    else:  # which has fences alone
        assert (body.count("ld.volatile.global"), body.count("st.volatile.global")) == (2, 2)
        fences = [line.strip() for line in body.splitlines() if "membar" in line]
        assert fences == ["membar.cta;", "membar.gl;", "membar.sys;", "membar.sys;"]


_WORDS = [name for name in ATOMIC_ARITHMETIC if ELEMENT_TYPES[name].nbytes >= 4]
_SMALL = ("int8", "int16", "uint8", "uint16")
_NARROW = [name for name in ATOMIC_ARITHMETIC if ELEMENT_TYPES[name].is_narrow]
#: Where an addition to 16 bits is one instruction (PTX ISA, "atom"): compute capability.
_ADDS = {"float16": 70, "bfloat16": 90}


@pytest.mark.parametrize("arch", ARCH_PARAMETERS)
@pytest.mark.parametrize("dtype", _NARROW)
def test_arithmetic_on_16_bits(dtype: str, arch: str) -> None:
    body = body_of(compile_ptx(arithmetic, f"{dtype}[::1], {dtype}[::1]", arch))
    has_add = int(arch[3:].rstrip("a")) >= _ADDS[dtype]
    # A subtraction adds the negative; all else swaps the word around the element.
    assert body.count(f"atom.global.add.noftz.{_PTX[dtype]}") == 2 * has_add
    assert body.count("global.cas.b32") == 6 - 2 * has_add
    assert ".sys" not in body


@pytest.mark.parametrize("arch", ARCH_PARAMETERS)
@pytest.mark.parametrize("dtype", _WORDS)
def test_arithmetic(dtype: str, arch: str) -> None:
    body = body_of(compile_ptx(arithmetic, f"{dtype}[::1], {dtype}[::1]", arch))
    bits = dtype[-2:]
    add = f"atom.global.add.{_PTX[dtype].replace('s', 'u')}"
    assert body.count(add) == 2  # a subtraction adds the negative
    assert f"atom.global.exch.b{bits}" in body
    swaps = body.count(f"global.cas.b{bits}")
    if dtype.startswith("float"):
        assert swaps == 3  # minimum and maximum are loops
        assert f"max.{_PTX[dtype]}" in body
        assert f"min.{_PTX[dtype]}" in body
    else:
        assert swaps == 1
        assert f"atom.global.max.{_PTX[dtype]}" in body
        assert f"atom.global.min.{_PTX[dtype]}" in body
    assert ".sys" not in body


@pytest.mark.parametrize("arch", ARCH_PARAMETERS)
@pytest.mark.parametrize("dtype", _SMALL)
def test_integers_of_8_and_16_bits_are_parts_of_a_word(dtype: str, arch: str) -> None:
    signature = f"{dtype}[::1], {dtype}[::1]"
    body = body_of(compile_ptx(arithmetic, signature, arch))
    assert body.count("global.cas.b32") == body.count("atom.") == 6
    body = body_of(compile_ptx(bitwise, signature, arch))
    for operation in ("and", "or", "xor"):
        assert f"atom.global.{operation}.b32" in body
    assert ".sys" not in body


@pytest.mark.parametrize("arch", ARCH_PARAMETERS)
@pytest.mark.parametrize("dtype", [d for d in ATOMIC_BITWISE if d not in _SMALL])
def test_bitwise(dtype: str, arch: str) -> None:
    body = body_of(compile_ptx(bitwise, f"{dtype}[::1], {dtype}[::1]", arch))
    for operation in ("and", "or", "xor"):
        assert f"atom.global.{operation}.b{dtype[-2:]}" in body


@pytest.mark.parametrize("arch", ARCH_PARAMETERS)
def test_wrapping_counters(arch: str) -> None:
    body = body_of(compile_ptx(wrapping, "uint32[::1], uint32[::1]", arch))
    assert "atom.global.inc.u32" in body
    assert "atom.global.dec.u32" in body
    wide = body_of(compile_ptx(wrapping, "uint64[::1], uint64[::1]", arch))
    assert wide.count("global.cas.b64") == 2


def test_shared_memory_has_its_own_instructions() -> None:
    def count(x, out):
        s = kd.shared.array(4, kd.int32)
        t = kd.threadIdx.x
        if t < 4:
            s[t] = 0
        kd.syncthreads()
        kd.atomic.add(s, x[t], 1)
        kd.syncthreads()
        if t < 4:
            out[t] = s[t]

    body = body_of(compile_ptx(count, "int32[::1], int32[::1]"))
    assert "atom.shared.add.u32" in body
    assert "atom.global" not in body


@pytest.mark.parametrize(("dtype", "nbytes"), [("uint8", 4), ("int16", 8)])
def test_shared_memory_holds_the_word_around_the_last_element(dtype: str, nbytes: int) -> None:
    def merge(x):
        s = kd.shared.array(3, dtype)
        kd.atomic.or_(s, kd.threadIdx.x % 3, x[kd.threadIdx.x])
        kd.syncthreads()
        x[kd.threadIdx.x] = s[kd.threadIdx.x % 3]

    assert re.search(rf"\.shared .*\[{nbytes}\];", compile_ptx(merge, f"{dtype}[::1]").ptx)


@pytest.mark.parametrize("index", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_an_index_may_have_any_width(index: str) -> None:
    def scatter(x, where):
        kd.atomic.add(x, where[kd.grid(1)], 1)

    body = body_of(compile_ptx(scatter, f"float64[::1], {index}[::1]"))
    assert "atom.global.add.f64" in body
    assert ("setp" in body or "shr.s" in body) == index.startswith("int")  # the test for wrapping


def test_the_index_of_a_matrix_is_a_tuple() -> None:
    def scatter(x):
        i, j = kd.grid(2)
        kd.atomic.max(x, (i, j), 1)

    assert "atom.global.max.u64" in body_of(compile_ptx(scatter, "uint64[:, :]"))


def add_four(x, out):
    i = kd.grid(1)
    outs = kd.view(out, kd.float32x4)
    kd.atomic.add(outs, i % 3, kd.view(x, kd.float32x4)[i])


_ALIGNED = Promises((ArrayPromises(16), ArrayPromises(16)), is_disjoint=True)


@pytest.mark.parametrize("arch", ARCH_PARAMETERS)
def test_a_vector_is_added_by_one_instruction_where_there_is_one(arch: str) -> None:
    compiled = compile_ptx(add_four, "float32[::1], float32[::1]", arch, promises=_ALIGNED)
    lines = map(str.strip, body_of(compiled).splitlines())
    added = [line for line in lines if line.startswith(("atom.", "red."))]
    if int(arch[3:].rstrip("a")) >= 90:
        (one,) = added
        assert one.startswith("atom.relaxed.gpu.global.add.v4.f32 {")
        assert compiled.ptx_version >= (8, 1)
    else:
        assert len(added) == 4
        assert all(each.startswith(("atom.global.add.f32", "red.global.add.f32")) for each in added)
    if arch in ASSEMBLED_ARCHS:
        assert assemble_together([compiled], arch) == 1


def test_a_vector_that_may_not_be_aligned_is_asked_for_its_address() -> None:
    body = body_of(compile_ptx(add_four, "float32[::1], float32[::1]", "sm_90"))
    assert body.count("global.add.v4.f32") == 1
    assert body.count("global.add.f32") == 4


def test_an_old_version_of_ptx_adds_one_by_one() -> None:
    specialization = specialize(add_four, "float32[::1], float32[::1]", promises=_ALIGNED)
    old = compile_kernel(specialization, arch="sm_90", ptx_version="7.8").ptx
    assert (old.count("add.v4.f32"), old.count("global.add.f32")) == (0, 4)


def add_to_shared(x):
    held = kd.shared.array(4, kd.float32x4)
    t = kd.threadIdx.x
    kd.atomic.add(held, t % 4, kd.float32x4(1, 2, 3, 4))
    kd.syncthreads()
    x[t] = held[t % 4].x


def test_in_shared_memory_numbers_are_added_one_by_one() -> None:
    body = body_of(compile_ptx(add_to_shared, "float32[::1]", "sm_90"))
    assert body.count("shared.add.f32") == 4
    assert "add.v4" not in body


def _wrong_value(x):
    kd.atomic.add(kd.view(x, kd.float32x4), 0, x[0])


def _wrong_operation(x):
    kd.atomic.max(kd.view(x, kd.float32x4), 0, kd.float32x4(1, 2, 3, 4))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (_wrong_value, "the value must be a float32x4, and is float32"),
        (_wrong_operation, "and is float32x4"),
    ],
)
def test_other_vectors_and_operations_are_refused(function: Any, message: str) -> None:
    with pytest.raises(KernelTypingError, match=message):
        lower(function, "float32[::1]")
