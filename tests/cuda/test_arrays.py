"""Device arrays: copies, views, and exchange with torch and CuPy without a copy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.errors import DriverError
from kerneldsl.language.element_types import NUMPY_NAMES
from tests.support.arrays import assert_same_bits, random_array


@kd.kernel
def double(x):
    i = kd.grid(1)
    if i < x.size:
        x[i] = x[i] * 2


@pytest.mark.parametrize("dtype", NUMPY_NAMES)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (1000,), (3, 0, 2), (7, 11, 13)])
def test_round_trip(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> None:
    array = np.asarray(random_array(rng, shape, dtype))
    assert_same_bits(kd.to_device(array).copy_to_host(), array, "round trip")


@pytest.mark.parametrize("order", ["C", "F"])
def test_round_trip_keeps_the_order(rng: np.random.Generator, order: str) -> None:
    array = np.asarray(random_array(rng, (5, 9), "float64"), order=order)  # type: ignore[call-overload]
    back = kd.to_device(array).copy_to_host()
    assert back.flags.c_contiguous == array.flags.c_contiguous
    assert_same_bits(back, array, order)


def test_views_copy_what_they_show(rng: np.random.Generator) -> None:
    array = random_array(rng, (20, 30), "int32")
    device = kd.to_device(array)
    for index in (np.s_[3], np.s_[::2, 5:9], np.s_[::-1, ::3], np.s_[..., 0]):
        assert_same_bits(device[index].copy_to_host(), array[index], str(index))


def test_writing_a_view_leaves_its_neighbours(rng: np.random.Generator) -> None:
    array = random_array(rng, (20, 30), "int32")
    device = kd.to_device(array)
    device[::2, 5:9] = np.zeros((10, 4), np.int32)
    array[::2, 5:9] = 0
    assert_same_bits(device.copy_to_host(), array, "written view")


def test_memory_is_aligned_for_vector_accesses() -> None:
    assert [kd.empty(n, np.uint8).pointer % 256 for n in (1, 3, 1000, 5)] == [0, 0, 0, 0]


def test_memory_is_given_back() -> None:
    sizes = 256 * [2**30]  # a quarter of a TiB in all: more than any device has
    for nbytes in sizes:
        assert kd.empty(nbytes, np.uint8).nbytes == nbytes


def test_out_of_memory_says_how_much_is_free() -> None:
    with pytest.raises(DriverError, match=r"allocate \d+ bytes .* on cuda:0.* are free") as e:
        kd.empty(2**50, np.uint8)
    assert e.value.name == "CUDA_ERROR_OUT_OF_MEMORY"
    assert kd.to_device(np.arange(3)).copy_to_host().tolist() == [0, 1, 2]


def test_torch_takes_our_memory(torch: Any, vector: np.ndarray) -> None:
    ours = kd.to_device(vector)
    for theirs in (torch.from_dlpack(ours), torch.as_tensor(ours, device="cuda")):
        assert theirs.data_ptr() == ours.pointer
        assert theirs.shape == ours.shape
    theirs += 1
    torch.cuda.synchronize()
    assert_same_bits(ours.copy_to_host(), vector + np.float32(1), "torch wrote")


def test_we_take_torchs_memory(torch: Any, vector: np.ndarray) -> None:
    theirs = torch.from_numpy(vector).cuda()
    for ours in (kd.from_dlpack(theirs), kd.as_array(theirs)):
        assert ours.pointer == theirs.data_ptr()
        assert ours.shape == tuple(theirs.shape)
    double.forall(theirs.numel())(theirs)
    assert_same_bits(theirs.cpu().numpy(), vector * 2, "we wrote")


def test_torch_views_are_taken_with_their_strides(torch: Any, rng: np.random.Generator) -> None:
    array = random_array(rng, (64, 48), "float32")
    theirs = torch.from_numpy(array).cuda()
    ours = kd.as_array(theirs.t()[::2, 3:])
    assert_same_bits(ours.copy_to_host(), array.T[::2, 3:], "transposed slice")


def test_cupy_takes_our_memory(cupy: Any, vector: np.ndarray) -> None:
    ours = kd.to_device(vector)
    for theirs in (cupy.from_dlpack(ours), cupy.asarray(ours)):
        assert theirs.data.ptr == ours.pointer
        assert_same_bits(cupy.asnumpy(theirs), vector, "cupy reads")


def test_we_take_cupys_memory(cupy: Any, vector: np.ndarray) -> None:
    theirs = cupy.asarray(vector)
    for ours in (kd.from_dlpack(theirs), kd.as_array(theirs)):
        assert ours.pointer == theirs.data.ptr
    double.forall(theirs.size)(theirs)
    assert_same_bits(cupy.asnumpy(theirs), vector * 2, "we wrote")


def test_a_shared_array_outlives_its_maker(torch: Any, vector: np.ndarray) -> None:
    ours = kd.as_array(torch.from_numpy(vector).cuda())
    torch.cuda.empty_cache()
    others = [torch.full((1001,), 7.0, device="cuda") for _ in range(50)]
    assert_same_bits(ours.copy_to_host(), vector, "after its maker")
    assert len(others) == 50


def test_tensors_are_taken_by_their_attributes(torch: Any, rng: np.random.Generator) -> None:
    """Their dtype, shape, strides and address, without a protocol; what is not there is refused."""
    for dtype in ("bfloat16", "float16", "float64", "int8", "bool", "complex64"):
        theirs = torch.ones(4, 6, dtype=getattr(torch, dtype), device="cuda").T[1:, ::2]
        found = kd.as_array(theirs)
        assert str(found.dtype) == dtype
        assert found.shape == tuple(theirs.shape)
        assert found.strides == tuple(n * theirs.element_size() for n in theirs.stride())
        assert found.location == theirs.data_ptr()
    assert kd.as_array(torch.empty(0, 3, device="cuda")).shape == (0, 3)
    with pytest.raises(kd.ArgumentError, match=r"gradient.*tensor\.detach\(\)"):
        kd.as_array(torch.ones(3, device="cuda", requires_grad=True))
    with pytest.raises(kd.ArgumentError, match="lazily"):
        kd.as_array(torch.tensor([1j], device="cuda").conj())
    with pytest.raises(kd.ArgumentError):
        kd.as_array(torch.ones(3, device="cuda").to_sparse())


def test_a_taken_tensor_is_ready_in_the_current_stream(torch: Any) -> None:
    side = torch.cuda.Stream()
    tensor = torch.zeros(1 << 24, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        for _ in range(50):
            tensor += 1
        ours = kd.as_array(tensor)
    assert (ours.copy_to_host() == 50).all()
