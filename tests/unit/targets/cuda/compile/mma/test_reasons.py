"""What remarks say of products without instructions, and of factors that are not loaded early."""

from __future__ import annotations

from typing import Any

import pytest

import kerneldsl as kd
from kerneldsl.contract import Promises
from targets.cuda.compile.compiler import compile_kernel
from tests.ptx.helpers import specialize


def _remarks(
    kernel: Any, arch: str = "sm_90", threads: int = 64, dtype: str = "float16"
) -> list[str]:
    signature = f"{dtype}[:,::1], {dtype}[:,::1], float32[:,::1], int64[::1]"
    spec = specialize(kernel, signature, block=(threads, 1, 1), promises=Promises(is_disjoint=True))
    names = ("multiply-by-warps", "load-factors-early")
    return [each.text for each in compile_kernel(spec, arch=arch).passes if each.name in names]


def _product(depth: int, precision: str = "ieee") -> Any:
    def product(a, b, c, places):
        x, y = kd.tile.load(a, (0, 0), (32, depth)), kd.tile.load(b, (0, 0), (16, depth))
        kd.tile.store(c, (0, 0), kd.mma(x, y.T, precision=precision))

    return product


@pytest.mark.parametrize(
    ("depth", "precision", "about", "reason"),
    [
        (16, "reference", {}, "precision is 'reference'"),
        (16, "ieee", {"dtype": "float32"}, "precision is 'ieee'"),
        (16, "ieee", {"dtype": "bfloat16", "arch": "sm_75"}, "sm_75 multiplies no bfloat16"),
        (16, "ieee", {"arch": "sm_70"}, "sm_70 multiplies no float16"),
        (24, "ieee", {}, "the extent along k is no multiple of 16"),
        (
            16,
            "ieee",
            {"threads": 48},
            "48 threads do not divide a tile of 32 by 16 into parts of 16 by 8 for each warp",
        ),
    ],
)
def test_a_product_without_an_instruction(
    depth: int, precision: str, about: dict[str, Any], reason: str
) -> None:
    found = _remarks(_product(depth, precision), **about)
    assert found == [f"1 product computed element by element: {reason}"]


def test_an_instruction_is_named() -> None:
    assert _remarks(_product(16)) == ["1 product computed by m16n8k16.f16"]
    assert _remarks(_product(16), arch="sm_75") == ["1 product computed by m16n8k8.f16"]


def test_sums_that_are_not_in_registers_are_named() -> None:
    def wide(a, b, c, places):
        x, y = kd.tile.load(a, (0, 0), (64, 16)), kd.tile.load(b, (0, 0), (128, 16))
        kd.tile.store(c, (0, 0), kd.mma(x, y.T))

    assert _remarks(wide, threads=64) == ["1 product computed by m16n8k16.f16"]
    assert _remarks(wide, threads=32) == [
        "1 product computed by m16n8k16.f16",
        "1 product with 256 sums in each thread, which are not in registers",
    ]


def written_by_the_loop(a, b, c, places):
    acc = kd.tile.zeros((32, 16), kd.float32)
    for k in kd.pipelined(range(0, a.shape[1], 16)):
        x, y = kd.tile.load(a, (0, k), (32, 16)), kd.tile.load(b, (0, k), (16, 16))
        acc = kd.mma(x, y.T, acc)
        kd.tile.store(b, (0, k), kd.tile.zeros((16, 16), kd.float16))


def from_an_earlier_iteration(a, b, c, places):
    acc, place = kd.tile.zeros((32, 16), kd.float32), 0
    for k in kd.pipelined(range(0, a.shape[1], 16)):
        x, y = kd.tile.load(a, (0, k), (32, 16)), kd.tile.load(b, (0, place), (16, 16))
        acc = kd.mma(x, y.T, acc)
        place = places[place]
    kd.tile.store(c, (0, 0), acc)


def large(a, b, c, places):
    acc = kd.tile.zeros((32, 16), kd.float32)
    for k in kd.pipelined(range(0, a.shape[1], 896)):
        x, y = kd.tile.load(a, (0, k), (32, 896)), kd.tile.load(b, (0, k), (16, 896))
        acc = kd.mma(x, y.T, acc)
    kd.tile.store(c, (0, 0), acc)


@pytest.mark.parametrize(
    ("kernel", "arch", "expected"),
    [
        (
            written_by_the_loop,
            "sm_90",
            [
                "1 factor loaded 3 iterations early",
                "1 factor not loaded early: the loop writes to what it reads",
            ],
        ),
        (
            from_an_earlier_iteration,
            "sm_90",
            [
                "1 factor loaded 3 iterations early",
                "1 factor not loaded early: its place depends on an earlier iteration",
            ],
        ),
        (large, "sm_86", ["2 factors not loaded early: shared memory has room for 1 iteration"]),
    ],
)
def test_a_factor_that_is_loaded_in_its_iteration(
    kernel: Any, arch: str, expected: list[str]
) -> None:
    found = [each for each in _remarks(kernel, arch) if "factor" in each]
    assert found == expected


def low(word):
    return kd.float16(word & kd.uint32(15))


def from_words(words, b, c):
    acc = kd.tile.zeros((32, 16), kd.float32)
    for k in kd.pipelined(range(0, words.shape[1], 16)):
        w, y = kd.tile.load(words, (0, k), (32, 16)), kd.tile.load(b, (0, k), (16, 16))
        acc = kd.mma(w.map(low), y.T, acc)
    kd.tile.store(c, (0, 0), acc)


def test_what_a_factor_is_computed_from_is_loaded_early() -> None:
    """Threads read the words that they unpack from shared memory, by pairs."""
    signature = "uint32[:,::1], float16[:,::1], float32[:,::1]"
    spec = specialize(from_words, signature, block=(64, 1, 1), promises=Promises(is_disjoint=True))
    found = compile_kernel(spec, arch="sm_90")
    assert "2 factors loaded 3 iterations early" in [each.text for each in found.passes]
    assert "ld.shared.v2.b32" in found.ptx
    assert "ld.global.nc.b32" not in found.ptx.split("mma.sync")[1]


def below(s, i, j):
    return s if j <= i else kd.float32(-1e30)


def folded(a, b, c):
    rows, columns = kd.tile.arange((1, 128)).T, kd.tile.arange((1, 128))
    x = kd.tile.load(a, (0, 0), (128, 128))
    top = kd.tile.full((128, 1), -1e30, kd.float32)
    acc = kd.tile.zeros((128, 128), kd.float32)
    for k in kd.pipelined(range(0, b.shape[0], 128)):
        s = kd.mma(x, kd.tile.load(b, (k, 0), (128, 128)).T).map(below, rows, k + columns)
        top = max(top, s.max(axis=1))
        acc = kd.mma((s - top).astype(a.dtype), kd.tile.load(b, (k, 0), (128, 128)), acc)
    kd.tile.store(c, (0, 0), acc)


def test_other_operations_have_room_beside_the_factors() -> None:
    kernel = kd.kernel(folded)
    halves = "float16[:, ::1], float16[:, ::1], float32[:, ::1]"
    resources = kernel.artifact(halves, arch="sm_90", block=256).resources()
    assert resources.static_shared_bytes <= 227 * 1024
