"""Vectors: what is refused, what debug mode checks, which accesses of memory PTX makes of them."""

from __future__ import annotations

import re

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.analysis.analyze import analyze
from kerneldsl.contract import ArrayPromises, ElementMapping, Promises
from kerneldsl.frontend.normalize import make_unit
from kerneldsl.language.element_types import DTYPE_NAMES, ELEMENT_TYPES, vector_names
from kerneldsl.language.kinds import ArrayKind
from kerneldsl.placement.registry import get_target
from tests.ptx.helpers import compile_ptx

_ALIGNED = Promises((ArrayPromises(16), ArrayPromises(16)), is_disjoint=True)


def scale(a, x, out):
    i = kd.grid(1)
    xs, outs = kd.view(x, kd.float32x4), kd.view(out, kd.float32x4)
    if i < outs.size:
        outs[i] = xs[i] * a


def _accesses(ptx: str) -> list[str]:
    return re.findall(r"\b(?:ld|st)\.(?:global|shared)\S*", ptx)


# --------------------------------------------------------------------------- accesses


def test_an_aligned_array_is_accessed_in_16_bytes() -> None:
    compiled = compile_ptx(scale, "float32, float32[::1], float32[::1]", promises=_ALIGNED)
    assert _accesses(compiled.ptx) == ["ld.global.nc.v4.b32", "st.global.v4.b32"]


def test_an_array_that_may_not_be_aligned_is_accessed_number_by_number() -> None:
    compiled = compile_ptx(scale, "float32, float32[::1], float32[::1]")
    assert _accesses(compiled.ptx) == ["ld.global.b32"] * 4 + ["st.global.b32"] * 4


def test_a_slice_of_an_aligned_array_may_not_be_aligned() -> None:
    def kernel(x, out, n):
        i = kd.grid(1)
        kd.view(out, kd.float32x4)[i] = kd.view(x[n:], kd.float32x4)[i]

    compiled = compile_ptx(kernel, "float32[::1], float32[::1], int64", promises=_ALIGNED)
    assert _accesses(compiled.ptx) == ["ld.global.nc.b32"] * 4 + ["st.global.v4.b32"]


def test_rows_of_an_aligned_matrix_are_accessed_in_16_bytes() -> None:
    def kernel(x, out):
        i, j = kd.grid(2)
        row = kd.view(x[i], kd.float32x4)
        if j < row.size:
            kd.view(out, kd.float32x4)[i, j] = row[j]

    compiled = compile_ptx(kernel, "float32[:, ::1], float32[:, ::1]", promises=_ALIGNED)
    assert _accesses(compiled.ptx) == ["ld.global.nc.v4.b32", "st.global.v4.b32"]


@pytest.mark.parametrize(("alignment", "promised"), [(16, 16), (8, 1), (4, 1)])
def test_code_is_compiled_for_the_alignment_of_arrays(alignment: int, promised: int) -> None:
    traits = analyze(make_unit(scale))
    assert traits.views_vectors
    found = Promises((ArrayPromises(alignment),) * 2)
    for mapping in (ElementMapping(), ElementMapping(items=(2, 1, 1))):
        kept = found.for_mapping(mapping, is_wide=traits.views_vectors)
        assert kept.array(0).alignment == promised
        assert found.for_mapping(mapping).array(0).alignment == 1


def test_launches_find_the_alignment() -> None:
    kernel = kd.kernel(scale)
    with kd.use("null"):
        array = kd.empty(29, np.float32)
        kernel[1, 32](2.0, array[:24], array[4:28])
        kernel[1, 32](2.0, array[1:25], array[:24])
    (forms,) = kernel._dispatcher.state().forms.values()
    found = [[each.alignment for each in form.promises.arrays] for form in forms]
    assert found == [[16, 16], [1, 16]]


# --------------------------------------------------------------------------- meaning


def test_what_is_written_through_a_view_counts_as_written() -> None:
    assert analyze(make_unit(scale)).written == {2}


def test_vectors_have_types() -> None:
    def kernel(x, out):
        v = kd.view(x, kd.float32x4)[0]
        w = v + v
        out[0] = w.y

    typed = get_target("cpu").compiler.typed_unit(
        make_unit(kernel), (ArrayKind("float32", 1), ArrayKind("float32", 1))
    )
    assert "w: float32x4" in typed.source()


def test_debug_mode_checks_vectors_and_parts() -> None:
    @kd.kernel(debug=True)
    def beyond(x, out, k):
        i = kd.grid(1)
        xs = kd.view(x, kd.float32x4)
        v = xs[i]
        out[i] = v[k]

    x, out = np.arange(11, dtype=np.float32), np.zeros(9, np.float32)
    with kd.use("cpu"):
        beyond[1, 2](x, out, 3)
        assert out[:2].tolist() == [3, 7]
        with pytest.raises(kd.KernelFault, match=r"Index 2 .* axis 0 of xs with extent 2"):
            beyond[1, 3](x, out, 0)
        with pytest.raises(kd.KernelFault, match=r"Index 4 .* of v with extent 4"):
            beyond[1, 2](x, out, 4)


def test_every_vector_fits_one_access() -> None:
    for name in vector_names():
        row = ELEMENT_TYPES[name]
        assert row.nbytes <= 16
        assert [field.name for field in row.fields] == list("xyzw"[: len(row.fields)])
        assert name not in DTYPE_NAMES
        assert getattr(kd, name).name == name
    for name in ("float64x4", "float32x3", "bool", "boolx2", "float16x2", "x2", "float32x"):
        assert (name in ELEMENT_TYPES) == (name == "bool")


# --------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("statement", "signature", "text"),
    [
        ("kd.view(x, kd.float32x4)", "float64[::1]", "needs an array of float32"),
        ("kd.view(x, kd.float32x4)", "float32[:]", r"np\.ascontiguousarray"),
        ("kd.view(x, kd.float32x4)", "float32[()]", "one axis or more"),
        ("kd.view(x, np.int32)", "float32[::1]", r"array\.view\(dtype\)"),
        ("kd.view(x, kd.int32x2)[0] / 2", "int32[::1]", "does not take"),
        ("kd.view(x, kd.int32x2)[0] + kd.int32x4(1, 2, 3, 4)", "int32[::1]", "does not take"),
        ("kd.view(x, kd.float32x2)[0] & 1", "float32[::1]", "does not take"),
        ("kd.view(x, kd.float32x2)[0].z", "float32[::1]", "has no attribute 'z'"),
        ("kd.float32x2(1j, 0)", "float32[::1]", "x must be a real number"),
    ],
)
def test_what_is_refused(statement: str, signature: str, text: str, tmp_path) -> None:
    source = f"def kernel(x):\n    v = {statement}\n"
    scope = {"kd": kd, "np": np}
    path = tmp_path / "refused.py"
    path.write_text(source)
    exec(compile(source, str(path), "exec"), scope)
    with pytest.raises(kd.KernelTypingError, match=text):
        kd.kernel(scope["kernel"]).ptx(signature, arch="sm_90")


def test_a_vector_takes_as_many_numbers_as_it_has() -> None:
    def kernel(out):
        out[0] = kd.float32x4(1, 2, 3).x

    with pytest.raises(kd.UnsupportedConstructError, match="float32x4"):
        kd.kernel(kernel).ptx("float32[::1]", arch="sm_90")


def test_there_are_no_vectors_outside_of_kernels() -> None:
    for dtype in ("float32x4", kd.float32x4):
        with pytest.raises(kd.ArgumentTypeError, match="is not a dtype"):
            kd.zeros(3, dtype)
    with pytest.raises(kd.OutsideKernelError):
        kd.float32x4(1, 2, 3, 4)


def test_tiles_are_not_made_of_vectors() -> None:
    def kernel(out):
        kd.tile.store(out, 0, kd.tile.zeros(32, kd.float32x4))

    with pytest.raises(kd.UnsupportedConstructError, match=r"tile\.zeros.*is not a dtype"):
        kd.kernel(kernel).ptx("float32[::1]", arch="sm_90")
