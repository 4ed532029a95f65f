"""Records around a kernel: launches that repeat, device arrays, errors, the cache, PTX."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError, KernelTypingError
from kerneldsl.language.element_types import element_name
from kerneldsl.language.kinds import ArrayKind
from tests.ptx.helpers import body_of, compile_ptx

_FIELDS = [("tag", np.int8), ("x", np.float32), ("m", np.int16, (3,))]
PACKED, ALIGNED = np.dtype(_FIELDS), np.dtype(_FIELDS, align=True)
each_dtype = pytest.mark.parametrize("dtype", [PACKED, ALIGNED], ids=["packed", "aligned"])


@pytest.fixture(autouse=True)
def _on_cpu():
    with kd.use("cpu"):
        yield


@kd.kernel
def double(a):
    i = kd.grid(1)
    if i < a.size:
        a[i].x *= np.float32(2)
        a[i].m[2] = a[i].tag


def _records(dtype, n=50):
    records = np.zeros(n, dtype)
    records["x"], records["tag"] = np.arange(n), np.arange(n)
    return records


@each_dtype
def test_launches_that_repeat_take_other_arrays_and_dtypes(dtype):
    for n in (50, 3, 50, 17):
        for each in (dtype, np.dtype([("x", "f4"), ("m", "i2", 3), ("tag", "i1")]), dtype):
            a = _records(each, n)
            double.forall(n)(a)
            np.testing.assert_array_equal(a["x"], 2 * np.arange(n))
            np.testing.assert_array_equal(a["m"], np.outer(np.arange(n), [0, 0, 1]))


@each_dtype
def test_device_arrays_hold_them(dtype):
    a = _records(dtype)
    device = kd.to_device(a)
    double.forall(50)(device)
    wanted = a.copy()
    double.forall(50)(wanted)
    assert device.dtype == dtype
    for found in (device.copy_to_host(), np.asarray(device), device[::-1].copy_to_host()[::-1]):
        np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(kd.full(3, wanted[1], dtype).copy_to_host(), wanted[[1, 1, 1]])
    assert not kd.zeros((2, 2), dtype).copy_to_host()["x"].any()
    assert kd.empty_like(device).dtype == dtype
    assert str(device[4].item()) == str(wanted[4].item())


def test_a_field_of_a_device_array_is_a_view():
    device = kd.to_device(_records(ALIGNED))
    x = device["x"]
    assert (x.dtype, x.shape, x.strides) == (np.float32, (50,), (ALIGNED.itemsize,))
    assert x.pointer == device.pointer + 4
    device["x"][3:5] = np.float32(-1)
    assert device.copy_to_host()["x"][3:6].tolist() == [-1, -1, 5]
    assert device["m"].shape == (50, 3)
    assert device[7:]["m"][0].copy_to_host().tolist() == [0, 0, 0]
    with pytest.raises(ArgumentTypeError, match="with 'z', no field"):
        device["z"]
    with pytest.raises(ArgumentTypeError, match="with 'x', no field"):
        kd.zeros(3)["x"]
    with pytest.raises(ArgumentTypeError, match=r"not aligned.*align=True"):
        kd.to_device(_records(PACKED))["x"]


def test_a_field_that_is_not_there_is_named():
    @kd.kernel
    def wrong(a, out):
        out[0] = a[0].y

    with pytest.raises(KernelTypingError, match="no field 'y'; its fields are tag, x, m"):
        wrong.forall(1)(_records(ALIGNED), np.zeros(1))


def test_fields_of_variables_are_assigned():
    @kd.kernel
    def right(a):
        record = a[0]
        record.x, record.tag = 7, 3
        record.x += 1

    records = _records(ALIGNED)
    with kd.use("cpu"):
        right[1, 1](records)
    assert (records["x"][0], records["tag"][0]) == (8, 3)


def test_fields_that_are_not_there_are_not_assigned():
    @kd.kernel
    def wrong(a):
        record = a[0]
        record.y = 1

    with pytest.raises(KernelTypingError, match="no field 'y'; its fields are tag, x, m"):
        wrong.forall(1)(_records(ALIGNED))


def test_indices_into_records_are_checked_in_debug_mode():
    @kd.kernel(debug=True)
    def beyond(a, k):
        a[k].x = a["x"][0] + a[0].m[1]

    beyond.forall(1)(_records(PACKED), 49)
    with pytest.raises(kd.KernelFault, match="Index 50 is out of range"):
        beyond.forall(1)(_records(PACKED), 50)


def test_a_read_only_array_is_not_written():
    a = _records(ALIGNED)
    a.setflags(write=False)
    with pytest.raises(kd.ReadOnlyArrayError):
        double.forall(50)(a)


_SCRIPT = """
import numpy as np
import kerneldsl as kd

@kd.kernel
def double(a):
    i = kd.grid(1)
    a[i].x *= np.float32(2)

fields = [("a", "i1"), ("x", "f4")]
for dtype in (np.dtype(fields), np.dtype(fields, align=True), np.dtype(fields[::-1])):
    a = np.ones(5, dtype)
    with kd.use("cpu"):
        double.forall(5)(a)
    assert a["x"].tolist() == [2.0] * 5, a
print(kd.cache.stats().hits)
"""


def test_compiled_code_is_found_again_by_the_layout(tmp_path: Path, monkeypatch):
    script = tmp_path / "records_script.py"
    script.write_text(_SCRIPT)
    monkeypatch.setenv("KERNELDSL_CACHE", "on")
    monkeypatch.setenv("KERNELDSL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    hits = [
        int(subprocess.run([sys.executable, script], capture_output=True, check=True).stdout)
        for _ in range(2)
    ]
    assert hits[0] == 0
    assert hits[1] == 3


@each_dtype
def test_a_gpu_reads_packed_records_by_bytes(dtype):
    kinds = (ArrayKind(element_name(dtype), 1),)
    body = body_of(compile_ptx(double.__wrapped__, kinds, "sm_90"))
    assert ("ld.global.b32" in body) == (dtype is ALIGNED)


def test_an_array_in_a_packed_record_is_packed_beside_one_of_an_aligned_record():
    """Of Numba's own types of arrays one stands for both."""
    fields = [("tag", np.int8), ("v", np.float32, (7,))]

    @kd.kernel
    def doubled(a):
        i = kd.grid(1)
        a[i].v[3] *= np.float32(2)

    for dtype in (np.dtype(fields, align=True), np.dtype(fields), np.dtype(fields, align=True)):
        kinds = (ArrayKind(element_name(dtype), 1),)
        body = body_of(compile_ptx(doubled.__wrapped__, kinds, "sm_90"))
        assert ("ld.global.b32" in body) == dtype.isalignedstruct


_INNER = np.dtype([("n", np.int8), ("x", np.float32)], align=True)


@pytest.mark.parametrize("is_aligned", [False, True])
def test_a_gpu_reads_records_in_packed_records_by_bytes(is_aligned):
    """Also those of aligned records, which may lie anywhere in a packed one."""

    @kd.kernel
    def summed(a, out):
        i = kd.grid(1)
        out[i] = a[i].inner.x + a["many"]["x"][i, 1]

    dtype = np.dtype([("k", np.int8), ("inner", _INNER), ("many", _INNER, (2,))], align=is_aligned)
    kinds = (ArrayKind(element_name(dtype), 1), ArrayKind("float32", 1))
    body = body_of(compile_ptx(summed.__wrapped__, kinds, "sm_90"))
    reads = [line for line in body.splitlines() if "ld.global" in line]
    assert len(reads) == (2 if is_aligned else 8)


def test_a_field_of_records_is_a_view_of_a_device_array():
    dtype = np.dtype([("k", np.int8), ("inner", _INNER)], align=True)
    a = np.zeros(5, dtype)
    a["inner"]["x"] = np.arange(5)
    device = kd.to_device(a)
    assert device["inner"]["x"].copy_to_host().tolist() == [0, 1, 2, 3, 4]


@kd.kernel
def scaled(p, out):
    i = kd.grid(1)
    out[i] = p["x"] * p["m"][i % 3]


def _one(dtype, x=2.0):
    record = np.zeros(3, dtype)[1]
    record["x"], record["m"] = x, (1, 2, 3)
    return record


@each_dtype
def test_a_record_is_an_argument_by_its_value(dtype):
    """As it is at the launch; others, and those of other dtypes, are other arguments."""
    out = np.zeros(4)
    record = _one(dtype)
    for each in (record, _one(dtype, 3), _one(PACKED), _one(ALIGNED, 5)):
        scaled.forall(4)(each, out)
        assert out.tolist() == [each["x"] * m for m in (1, 2, 3, 1)]
    scaled.forall(4)(_records(dtype, 5).view(np.recarray)[2], out)
    assert not out.any()
    launch = scaled.forall(4).bind(record, out)
    launch()
    record["x"] = 7
    scaled.forall(4)(record, out)
    assert out[0] == 7
    assert "x" in scaled.ptx(record, out, arch="sm_90", forall=1)


def test_signatures_take_records():
    @kd.kernel(["float64, float64[::1]"])
    def other(p, out):
        out[kd.grid(1)] = p

    with pytest.raises(ArgumentTypeError, match="expects float64"):
        other.forall(1)(_one(PACKED), np.zeros(1))


def test_an_argument_is_not_written():
    def at_a_field(p):
        p["x"] = 1

    def in_an_array(p):
        p["m"][0] = 1

    def by_another_name(p):
        record = p
        record["x"] = 1

    for function in (at_a_field, in_an_array, by_another_name):
        with pytest.raises(KernelTypingError, match="array of one record"):
            kd.kernel(function).forall(1)(_one(ALIGNED))


def test_records_that_are_no_arguments():
    out = np.zeros(1)
    with pytest.raises(ArgumentTypeError, match=r"record\['when'\], record\['x'\]"):
        scaled.forall(1)(np.zeros(1, [("when", "M8[s]"), ("x", "f4")])[0], out)
    with pytest.raises(ArgumentTypeError, match=r"dtype \|V3 cannot be passed.*structured dtype"):
        scaled.forall(1)(np.void(b"abc"), out)
    with pytest.raises(ArgumentValueError, match=r"1032 bytes.*array\[:1\]"):
        scaled.forall(1)(np.zeros(1, [("x", "f8"), ("m", "f8", 128)])[0], out)
