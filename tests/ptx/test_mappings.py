"""What mappings and promises become in PTX: vector accesses, and none where nothing is promised."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest

import kerneldsl as kd
from kerneldsl.contract import NO_PROMISES, ONE_EACH, ArrayPromises, ElementMapping, Promises
from kerneldsl.contract.abi import EXPLICIT, LaunchMode
from targets.cuda.compile.ptxas import assemble
from tests.ptx.helpers import body_of, compile_ptx


def axpy(a, x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


def copy(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = x[i]


def copy_early(x, out):
    i = kd.grid(1)
    if i >= out.size:
        return
    out[i] = x[i]


def copy_counted(n, x, out):
    i = kd.grid(1)
    if i < n:
        out[i] = x[i]


def increment(x):
    i = kd.grid(1)
    if i < x.size:
        x[i] = x[i] + 1


def smooth(x, out):
    i = kd.grid(1)
    if 0 < i < out.size - 1:
        out[i] = x[i - 1] + x[i] + x[i + 1]


def scale(a, x, out):
    i, j = kd.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = a * x[i, j]


_AXPY = "float32, float32[::1], float32[::1], float32[::1]"
_FOUR = ElementMapping((4, 1, 1), 4)


def _promise(
    count: int, alignment: int = 16, *, is_extent: bool = True, is_narrow: bool = False
) -> Promises:
    array = ArrayPromises(alignment, is_extent=is_extent)
    return Promises((array,) * count, is_disjoint=True, is_narrow=is_narrow)


def _accesses(artifact: Any) -> Counter[str]:
    """How often each kind of access of global memory is written, the guarded path included."""
    return Counter(re.findall(r"\b(?:ld|st)\.global[\w.]*", body_of(artifact)))


def _compile(
    kernel: Any,
    signature: str,
    mapping: ElementMapping = ONE_EACH,
    promises: Promises = NO_PROMISES,
    *,
    ndim: int | None = 1,
    arch: str = "sm_90",
) -> Any:
    mode = EXPLICIT if ndim is None else LaunchMode(ndim)
    return compile_ptx(kernel, signature, arch, mode=mode, mapping=mapping, promises=promises)


@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_100"])
def test_axpy_of_float32_moves_four_elements_at_a_time(arch: str) -> None:
    artifact = _compile(axpy, _AXPY, _FOUR, _promise(3), arch=arch)
    assert _accesses(artifact) == {
        "ld.global.nc.v4.b32": 2,
        "ld.global.nc.b32": 2,
        "st.global.v4.b32": 1,
        "st.global.b32": 1,
    }
    assert assemble(artifact.ptx, arch).resources["axpy"].spill_bytes == 0


@pytest.mark.parametrize(
    ("dtype", "items", "access"),
    [
        ("float64", 2, "v2.b64"),
        ("int64", 2, "v2.b64"),
        ("complex64", 2, "v4.b32"),
        ("float32", 2, "v2.b32"),
        ("int16", 8, "v4.b32"),
        ("uint8", 16, "v4.b32"),
        ("bool", 16, "v4.b32"),
    ],
)
def test_sixteen_bytes_of_any_dtype(dtype: str, items: int, access: str) -> None:
    mapping = ElementMapping((items, 1, 1), items)
    found = _accesses(_compile(copy, f"{dtype}[::1], {dtype}[::1]", mapping, _promise(2)))
    assert found[f"ld.global.nc.{access}"] == 1
    assert found[f"st.global.{access}"] == 1


@pytest.mark.parametrize("order", ["strided", "contiguous"])
def test_two_vectors_a_thread(order: Any) -> None:
    mapping = ElementMapping((8, 1, 1), 4, order)
    found = _accesses(_compile(axpy, _AXPY, mapping, _promise(3)))
    assert (found["ld.global.nc.v4.b32"], found["st.global.v4.b32"]) == (4, 2)


def test_strided_items_are_single_accesses_without_a_test_between_them() -> None:
    body = body_of(_compile(axpy, _AXPY, ElementMapping((4, 1, 1)), _promise(3)))
    assert body.count("ld.global.nc.b32") == 10  # four, and the guarded path's
    assert body.count("setp") == 3  # whole or not; the guarded path's index; its loop


def norms(x, out):
    i = kd.grid(1)
    if i < x.shape[0]:
        out[i] = x[i, 0] * x[i, 0] + x[i, 1] * x[i, 1]


@pytest.mark.parametrize(
    ("kernel", "signature"),
    [(copy, "f4[::1], f4[::1]"), (copy_early, "f4[::1], f4[::1]"), (norms, "f4[:, ::1], f4[::1]")],
)
def test_one_element_a_thread_tests_one_length(kernel: Any, signature: str) -> None:
    promises = _promise(2, alignment=1, is_narrow=True)
    body = body_of(_compile(kernel, signature, promises=promises))
    assert (body.count("setp"), body.count("min.")) == (1, 0)
    other = _promise(2, alignment=1, is_extent=False, is_narrow=True)
    assert body_of(_compile(kernel, signature, promises=other)).count("min.") == 1


@pytest.mark.parametrize(
    "promises",
    [
        NO_PROMISES,
        _promise(3, alignment=4),
        Promises((ArrayPromises(16, is_extent=True),) * 3),
    ],
    ids=["none", "misaligned", "overlapping"],
)
def test_without_a_promise_elements_go_one_by_one(promises: Promises) -> None:
    found = _accesses(_compile(axpy, _AXPY, _FOUR, promises))
    assert not any(".v" in access for access in found)


def test_half_the_alignment_gives_half_the_width() -> None:
    found = _accesses(_compile(copy, "float32[::1], float32[::1]", _FOUR, _promise(2, 8)))
    assert (found["ld.global.nc.v2.b32"], found["st.global.v2.b32"]) == (2, 2)


def test_arrays_of_any_length_serve_as_well() -> None:
    found = _accesses(_compile(axpy, _AXPY, _FOUR, _promise(3, is_extent=False)))
    assert found["st.global.v4.b32"] == 1


@pytest.mark.parametrize("kernel", [copy, copy_early])
def test_guards_leave_whole_tiles_alone(kernel: Any) -> None:
    found = _accesses(_compile(kernel, "float32[::1], float32[::1]", _FOUR, _promise(2)))
    assert (found["ld.global.nc.v4.b32"], found["st.global.v4.b32"]) == (1, 1)


@pytest.mark.parametrize("integer", ["int64", "int32", "uint32"])
def test_a_count_guards_as_well_as_a_size(integer: str) -> None:
    signature = f"{integer}, float32[::1], float32[::1]"
    assert _accesses(_compile(copy_counted, signature, _FOUR, _promise(2)))["st.global.v4.b32"] == 1


def test_neighbours_are_read_together() -> None:
    found = _accesses(_compile(smooth, "float32[::1], float32[::1]", _FOUR, _promise(2)))
    assert (found["ld.global.nc.v4.b32"], found["st.global.v4.b32"]) == (1, 1)
    assert found["ld.global.nc.b32"] == 2 + 3  # beside the four; on the guarded path


def test_in_place() -> None:
    found = _accesses(_compile(increment, "float32[::1]", _FOUR, _promise(1)))
    assert (found["ld.global.v4.b32"], found["st.global.v4.b32"]) == (1, 1)
    assert not any(".nc" in access for access in found)


def test_an_argument_that_is_also_written_is_not_read_through_the_other_cache() -> None:
    arrays = (ArrayPromises(16, is_extent=True), ArrayPromises(16, is_extent=True))
    promises = Promises((*arrays, ArrayPromises(16, same_as=1, is_extent=True)), is_disjoint=True)
    found = _accesses(_compile(axpy, _AXPY, _FOUR, promises))
    assert found == {
        "ld.global.nc.v4.b32": 1,
        "ld.global.v4.b32": 1,
        "st.global.v4.b32": 1,
        "ld.global.nc.b32": 1,
        "ld.global.b32": 1,
        "st.global.b32": 1,
    }


@pytest.mark.parametrize(
    ("layouts", "axes"), [(":, ::1", None), ("::1, :", (0, 1))], ids=["C", "F"]
)
def test_matrices_along_their_contiguous_axis(layouts: str, axes: Any) -> None:
    mapping = ElementMapping((4, 1, 1), 4, axes=axes)
    signature = f"float32, float32[{layouts}], float32[{layouts}]"
    found = _accesses(_compile(scale, signature, mapping, _promise(2), ndim=2))
    assert (found["ld.global.nc.v4.b32"], found["st.global.v4.b32"]) == (1, 1)
    across = ElementMapping((4, 1, 1), 4, axes=(0, 1) if axes is None else None)
    found = _accesses(_compile(scale, signature, across, _promise(2), ndim=2))
    assert not any(".v" in access for access in found)


def test_rows_of_a_pitched_matrix() -> None:
    promises = Promises((ArrayPromises(16, 1, is_extent=True),) * 2, is_disjoint=True)
    signature = "float32, float32[:, :], float32[:, :]"
    found = _accesses(_compile(scale, signature, _FOUR, promises, ndim=2))
    assert (found["ld.global.nc.v4.b32"], found["st.global.v4.b32"]) == (1, 1)


def test_several_rows_a_thread() -> None:
    signature = "float32, float32[:, ::1], float32[:, ::1]"
    mapping = ElementMapping((4, 2, 1), 4)
    found = _accesses(_compile(scale, signature, mapping, _promise(2), ndim=2))
    assert (found["ld.global.nc.v4.b32"], found["st.global.v4.b32"]) == (2, 2)


def test_promises_serve_explicit_launches_too() -> None:
    found = _accesses(_compile(axpy, _AXPY, promises=_promise(3, is_extent=False), ndim=None))
    assert found == {"ld.global.nc.b32": 2, "st.global.b32": 1}


def test_division_by_a_narrow_length_is_32_bits_wide() -> None:
    def turn(x, out):
        i = kd.grid(1)
        if i < out.size:
            out[i] = x[i // x.shape[0]]

    signature = "float32[::1], float32[::1]"
    promises = _promise(2, is_narrow=True, is_extent=False)
    narrow = body_of(_compile(turn, signature, promises=promises))
    assert "div.u32" in narrow
    assert not re.search(r"\bdiv\.[su]64", narrow)
    assert re.search(
        r"\bdiv\.[su]64", body_of(_compile(turn, signature, promises=_promise(2, is_extent=False)))
    )


@pytest.mark.parametrize("option", ["debug", "lineinfo", "fastmath"])
@pytest.mark.parametrize("kernel", [axpy, smooth])
def test_options_go_with_mappings(kernel: Any, option: str) -> None:
    signature = _AXPY if kernel is axpy else "float32[::1], float32[::1]"
    promises = _promise(3 if kernel is axpy else 2)
    artifact = compile_ptx(
        kernel,
        signature,
        "sm_90",
        mode=LaunchMode(1),
        mapping=_FOUR,
        promises=promises,
        **{option: True},
    )
    assert kernel.__name__ in assemble(artifact.ptx, "sm_90").resources
    assert option == "debug" or _accesses(artifact)["st.global.v4.b32"] == 1


def test_the_same_mapping_gives_the_same_text() -> None:
    texts = {
        compile_ptx.__wrapped__(  # type: ignore[attr-defined]
            smooth,
            "float32[::1], float32[::1]",
            "sm_90",
            mode=LaunchMode(1),
            mapping=_FOUR,
            promises=_promise(2),
        ).ptx
        for _ in range(2)
    }
    assert len(texts) == 1


def test_kernels_that_read_their_thread_are_not_mapped() -> None:
    def place(out):
        out[kd.blockIdx.x * kd.blockDim.x + kd.threadIdx.x] = 1

    with pytest.raises(ValueError, match="place is compiled for"):
        _compile(place, "float32[::1]", _FOUR)
    with pytest.raises(ValueError, match="axpy is compiled for"):
        _compile(axpy, _AXPY, _FOUR, ndim=None)
    with pytest.raises(ValueError, match="rank 1"):
        _compile(axpy, _AXPY, ElementMapping(axes=(0, 1)))
