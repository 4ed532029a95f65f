"""What operations on tiles become: registers, wide accesses, a bound of the block."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.contract import ArrayPromises, Promises
from targets.cuda.compile.artifact import CudaArtifact
from targets.cuda.compile.ptxas import assemble
from tests.ptx.helpers import body_of, compile_ptx
from tests.support.extent import full_beyond

WIDTH = 4096
WIDE = 32768
ROWS = "float32[:,::1], float32[:,::1]"
NORM = "float32[:,::1], float32[::1], float32[::1], float32[:,::1], float32"


def softmax(x, out):
    row = kd.blockIdx.x
    v = kd.tile.load(x[row], 0, WIDTH, other=-math.inf)
    e = math.exp(v - v.max())
    kd.tile.store(out[row], 0, e / e.sum())


def wide_softmax(x, out):
    row = kd.blockIdx.x
    v = kd.tile.load(x[row], 0, WIDE, other=-math.inf)
    e = math.exp(v - v.max())
    kd.tile.store(out[row], 0, e / e.sum())


def affine(v, i, scale, weight, bias):
    return v * scale * weight[i] + bias[i]


def layer_norm(x, weight, bias, out, eps):
    row = kd.blockIdx.x
    v = kd.tile.load(x[row], 0, WIDE)
    d = v - v.mean()
    scale = np.float32(1) / math.sqrt((d * d).mean() + eps)
    kd.tile.store(out[row], 0, d, affine, scale, weight, bias)


def _compiled(function, signature, threads, arrays=0) -> CudaArtifact:
    promises = Promises((ArrayPromises(16),) * arrays, is_disjoint=arrays > 0)
    return compile_ptx(function, signature, "sm_90", block=(threads, 1, 1), promises=promises)


@pytest.mark.parametrize(("function", "threads"), [(softmax, 128), (wide_softmax, 1024)])
def test_elements_stay_in_registers_that_the_block_has(function, threads) -> None:
    text = _compiled(function, ROWS, threads, 2).ptx
    assert f".maxntid {threads}" in text
    ((_, resources),) = assemble(text, "sm_90").resources.items()
    assert resources.local_bytes == resources.spill_bytes == 0
    assert resources.registers * threads <= 65536


@pytest.mark.parametrize(("threads", "is_unrolled"), [(32, True), (7, False)])
def test_more_elements_than_registers_are_looped_over(capfd, threads, is_unrolled) -> None:
    """Of 586 elements a thread code in a row would take seconds to assemble, and LLVM warns."""
    text = _compiled(softmax, ROWS, threads, 2).ptx
    assert (".local" not in text) is is_unrolled
    assert len(text) < 150_000
    assert "not unrolled" not in capfd.readouterr().err


def test_a_promised_row_is_read_once_by_wide_instructions_that_need_no_order() -> None:
    aligned = body_of(_compiled(softmax, ROWS, 256, 2))
    assert aligned.count("ld.global.nc.v4.b32") == aligned.count("st.global.v4.b32") == 4
    assert "ld.global.v" not in aligned
    unknown = body_of(_compiled(softmax, ROWS, 256))
    assert unknown.count("ld.global.v4.b32") == 4  # if the address turns out to allow it
    assert "ld.global.nc" not in unknown


def test_what_a_stored_element_is_combined_with_is_read_by_wide_instructions() -> None:
    text = _compiled(layer_norm, NORM, 1024, 4).ptx
    assert text.count("ld.global.nc.v4.b32") == 3 * WIDE // 4096
    ((_, resources),) = assemble(text, "sm_90").resources.items()
    assert resources.local_bytes == resources.spill_bytes == 0


def running_sums(x, out):
    row = kd.blockIdx.x
    kd.tile.store(out[row], 0, kd.tile.load(x[row], 0, WIDTH).cumsum())


def in_order(x, out):
    row = kd.blockIdx.x
    kd.tile.store(out[row], 0, kd.tile.load(x[row], 0, WIDTH).sort())


@pytest.mark.parametrize(
    ("function", "shared_bytes", "barriers"),
    # Sums: a number for each warp and round. Sort: an integer for each element, and one for 16.
    [(running_sums, 4 * 4 * 8, 1), (in_order, 4 * (WIDTH + WIDTH // 16), 3)],
)
def test_sums_and_sorts_stay_in_registers(function, shared_bytes, barriers) -> None:
    artifact = _compiled(function, ROWS, 256, 2)
    text = artifact.ptx
    assert text.count("bar.sync") == barriers  # those in the loop over phases are counted once
    ((_, resources),) = assemble(text, "sm_90").resources.items()
    assert resources.local_bytes == resources.spill_bytes == 0
    assert resources.static_shared_bytes == artifact.static_shared_bytes == shared_bytes


def sorted_with_sums(x, out):
    t = kd.tile.load(x, (0, 0), (32, 64))
    t = t.sort() - t.sum(axis=1)
    kd.tile.store(out, (0, 0), t.cumsum(axis=1))


def test_the_shared_memory_of_tiles_is_counted() -> None:
    artifact = _compiled(sorted_with_sums, ROWS, 64)
    assert artifact.specialization.traits.static_shared_bytes == 0
    ((_, resources),) = assemble(artifact.ptx, "sm_90").resources.items()
    assert artifact.static_shared_bytes == resources.static_shared_bytes > 3 * 4 * 32 * 64


def sorted_to_bytes(x, out):
    kd.tile.store(out, 0, kd.tile.load(x, 0, 64).sort())


def test_a_sort_and_a_conversion_declare_one_function_once() -> None:
    artifact = compile_ptx(sorted_to_bytes, "float32[::1], uint8[::1]", "sm_90", block=(32, 1, 1))
    assert artifact.text("llvm").count("declare i32 @llvm.umin.i32(") == 1


def indexed(x, out, step):
    kd.tile.store(out, 0, kd.tile.load(x, (1, 2, step).index(step), 64))


def test_what_is_not_read_in_a_kernel_with_tiles_is_refused() -> None:
    with pytest.raises(kd.KernelTypingError, match="no attribute 'index'"):
        compile_ptx(indexed, "float32[::1], float32[::1], int64", "sm_90", block=(32, 1, 1))


def transposed(x, out):
    t = kd.tile.load(x, (0, 0), (17, 33))
    kd.tile.store(out, (0, 0), t.T * 2)


def combined(x, out):
    t = kd.tile.load(x[0], 0, 1000)
    s = kd.shared.array(50, kd.float32)
    kd.tile.store(s, 0, t.cumsum() - t.max())
    kd.tile.store(out[0], 0, kd.tile.load(s, 0, 50).sort() + t.min() * t.argsort().sum())


@pytest.mark.parametrize("function", [transposed, combined])
@pytest.mark.parametrize("threads", full_beyond([7, 64, 100], [100]))
def test_what_a_kernel_is_said_to_take_is_what_is_assembled(function, threads: int) -> None:
    artifact = _compiled(function, ROWS, threads)
    ((_, resources),) = assemble(artifact.ptx, "sm_90").resources.items()
    assert artifact.static_shared_bytes == resources.static_shared_bytes > 0


def sorted_too_wide(x, out):
    row = kd.blockIdx.x
    kd.tile.store(out[row], 0, kd.tile.load(x[row], 0, WIDE).sort())


def test_tiles_that_need_too_much_shared_memory_are_refused() -> None:
    with pytest.raises(kd.ResourceLimitError, match=r"declares 139264 bytes .* its tiles need"):
        _compiled(sorted_too_wide, ROWS, 1024)


def test_bounds_of_the_user_stay() -> None:
    artifact = compile_ptx(softmax, ROWS, "sm_90", block=(128, 1, 1), launch_bounds=(512, 2))
    assert ".maxntid 512" in artifact.ptx
    assert ".minnctapersm 2" in artifact.ptx


def copied(x, out):
    i = kd.grid(1)
    out[i] = x[i]


def test_an_array_that_is_written_by_another_name_is_not_only_read() -> None:
    both = (ArrayPromises(16), ArrayPromises(16, same_as=0))
    for arrays, is_cached in (((ArrayPromises(16),) * 2, True), (both, False)):
        promises = Promises(arrays, is_disjoint=True)
        artifact = compile_ptx(copied, "float32[::1], float32[::1]", "sm_90", promises=promises)
        (pointer,) = re.findall(r"define[^\n]*?\((.*?)%x\.data,", artifact.text("llvm"))
        assert ("readonly" in pointer) is is_cached


def unpacked(words, out):
    t = kd.tile.load(kd.packed(words[0], kd.int4), 0, 512)
    kd.tile.store(out[0], 0, t * kd.float32(0.5))


def unpacked_plane(words, out):
    t = kd.tile.load(kd.packed(words, kd.ternary), (0, 0), (8, 64), dtype=kd.float32)
    kd.tile.store(out, (0, 0), t - t.sum(axis=1))


@pytest.mark.parametrize("function", [unpacked, unpacked_plane])
def test_packed_numbers_are_loaded_as_tiles(function) -> None:
    artifact = _compiled(function, "int32[:,::1], float32[:,::1]", 64, 2)
    ((_, resources),) = assemble(artifact.ptx, "sm_90").resources.items()
    assert resources.local_bytes == resources.spill_bytes == 0


def stored_packed(words, out):
    kd.tile.store(kd.packed(words[0], kd.int4), 0, kd.tile.load(out[0], 0, 512))


def test_packed_numbers_are_not_stored() -> None:
    with pytest.raises(kd.KernelTypingError, match="first argument must be an array"):
        _compiled(stored_packed, "int32[:,::1], int8[:,::1]", 64)
