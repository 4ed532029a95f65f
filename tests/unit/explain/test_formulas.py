"""Indices as SymPy expressions, and findings with their places."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import sympy

import kerneldsl as kd
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError, LaunchConfigError
from tests.unit.explain.test_accesses import gathered, transposed


@kd.kernel
def column(a, out, width):
    x, y = kd.grid(2)
    row = 2 * y + 1
    for k in range(width):
        out[x, row] = a[row, k] + a[k, x // 2]


@kd.kernel
def unpadded(a, out):
    tile = kd.shared.array((32, 32), np.float32)
    tx, ty = kd.threadIdx.x, kd.threadIdx.y
    tile[ty, tx] = a[kd.blockIdx.x * 32 + ty, tx]
    kd.syncthreads()
    out[kd.blockIdx.x * 32 + ty, tx] = tile[tx, ty]


@kd.kernel
def padded(a, out):
    tile = kd.shared.array((32, 33), np.float32)
    tx, ty = kd.threadIdx.x, kd.threadIdx.y
    tile[ty, tx] = a[kd.blockIdx.x * 32 + ty, tx]
    kd.syncthreads()
    out[kd.blockIdx.x * 32 + ty, tx] = tile[tx, ty]


@kd.kernel
def spilled(out):
    values = kd.local.array(8, np.float64)
    i = kd.grid(1)
    for k in range(8):
        values[k] = k
    out[i] = values[i % 8]


#: Of `column`.
_SIZES = {"a": (256, 256), "out": (256, 256), "width": 8}


def _symbol(name):
    return sympy.Symbol(name, integer=True, nonnegative=True)


def test_indices_are_formulas_of_coordinates():
    signature = "float32[:, ::1], float32[:, ::1], int32"
    found = column.explain(signature, block=(32, 8), sizes=_SIZES, arch="sm_90", occupancy=False)
    one, two, store = found.accesses
    x = _symbol("blockIdx.x") * _symbol("blockDim.x") + _symbol("threadIdx.x")
    y = _symbol("blockIdx.y") * _symbol("blockDim.y") + _symbol("threadIdx.y")
    k, pitch = _symbol("k"), _symbol("out.shape[1]")
    by_text = {each.text: each for each in (one, two, store)}
    assert by_text["a[row, k]"].index == (2 * y + 1, k)
    assert by_text["a[k, x // 2]"].index == (k, sympy.floor(x / 2))
    out = by_text["out[x, row]"]
    assert sympy.expand(out.offset - (x * pitch + 2 * y + 1)) == 0
    assert out.stride == pitch
    assert by_text["a[row, k]"].stride == 0
    assert by_text["a[k, x // 2]"].stride is None


def test_a_variable_has_the_value_it_was_given_last():
    found = transposed.explain("float32[:, ::1], float32[:, ::1]", block=(16, 16), arch="sm_90")
    (store,) = (each for each in found.accesses if each.array == "out")
    assert store.index[1] == 16 * _symbol("blockIdx.y") + _symbol("threadIdx.x")


def test_strided_stores_are_found():
    signature = "float32[:, ::1], float32[:, ::1], int32"
    found = column.explain(signature, block=(32, 8), sizes=_SIZES, arch="sm_90", occupancy=False)
    first = next(each for each in found.findings if each.kind == "coalescing")
    assert first.number == pytest.approx(32.0)
    assert first.where.line.strip().startswith("out[x, row]")
    assert "out.shape[1] elements apart" in first.why
    assert "^" in str(first)


def test_padding_that_removes_conflicts_is_tried():
    found = unpadded.explain(
        "float32[:, ::1], float32[:, ::1]", block=(32, 32), arch="sm_90", occupancy=False
    )
    (finding,) = (each for each in found.findings if each.kind == "bank conflicts")
    assert finding.number == pytest.approx(32)
    assert "(32, 33) instead of (32, 32)" in finding.remedy
    better = padded.explain("float32[:, ::1], float32[:, ::1]", block=(32, 32), arch="sm_90")
    assert not [each for each in better.findings if each.kind == "bank conflicts"]


def test_local_arrays_with_an_index_are_found():
    found = spilled.explain("float64[::1]", block=64, arch="sm_90")
    (finding,) = (each for each in found.findings if each.kind == "local memory")
    assert finding.number == 64


def test_sizes_name_parameters_and_have_their_rank():
    signature = "int32[::1], float32[::1], float32[::1]"
    with pytest.raises(ArgumentValueError, match="parameters are index, x, out"):
        gathered.explain(signature, sizes={"y": 3}, arch="sm_90")
    with pytest.raises(ArgumentValueError, match="2 axes"):
        gathered.explain(signature, sizes={"x": (3, 4)}, arch="sm_90")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"sizes": {"x": -3}}, ArgumentValueError, "not negative"),
        ({"sizes": {"x": "y"}}, ArgumentTypeError, r"sizes\['x'\] is 'y'"),
        ({"sizes": {"x": (2.5,)}}, ArgumentTypeError, "tuple of ints"),
        ({"sizes": {"n": 2.5}}, ArgumentTypeError, "The parameter is int32"),
        ({"sizes": {"n": 2**31}}, ArgumentValueError, "-2147483648 to 2147483647"),
        ({"sizes": 300}, ArgumentTypeError, "must be a mapping"),
        ({"blocks": 128}, ArgumentTypeError, "unknown option 'blocks'. Options are block, grid"),
        ({"block": 2048}, LaunchConfigError, "2048 threads.* allows 1024"),
        ({"block": 64, "shared_bytes": 1 << 20}, LaunchConfigError, "shared memory"),
    ],
)
def test_what_no_launch_could_have_is_refused(options, error, message):
    @kd.kernel
    def first(x, n):
        i = kd.grid(1)
        if i < n:
            x[i] = i

    with pytest.raises(error, match=message):
        first.explain("float32[::1], int32", arch="sm_90", **options)


def test_sizes_are_refused_beside_arguments():
    args = np.zeros(9, np.int32), np.zeros(9, np.float32), np.zeros(9, np.float32)
    with pytest.raises(ArgumentValueError, match=r"together with arguments.*Leave sizes out"):
        gathered.explain(*args, sizes={"out": 3000}, arch="sm_90")


def test_what_is_printed_has_a_line_for_each_access_and_becomes_json():
    import json

    found = gathered.explain("int32[::1], float32[::1], float32[::1]", block=64, arch="sm_90")
    text = str(found)
    assert "load x[index[i]]" in text
    assert "assumed: index = (1024,)" in text
    again = json.loads(json.dumps(found.to_dict()))
    assert [each["text"] for each in again["accesses"]] == [each.text for each in found.accesses]
    assert again["findings"][0]["kind"] == "coalescing"


@kd.kernel
def guarded(a, out, n, scale):
    x, y = kd.grid(2)
    if x >= n or y >= a.shape[0]:
        return
    total = np.float32(0)
    for k in range(2, n, 3):
        total += a[y, k] * scale
    if 0 < x < n - 1 and y >= 2:
        for k in range(n):
            for _ in range(k):
                total -= scale
    if x % 2 == 0:
        total *= scale
    out[y, x] = total


@kd.kernel
def strides(x, out):
    for i in range(kd.grid(1), x.size, kd.gridsize(1)):
        out[i] = twice(x[i]) + twice(x[i])


@kd.func
def twice(v):
    return v * np.float32(2)


@pytest.mark.parametrize(("n", "rows"), [(13, 7), (20, 3)])
def test_formulas_are_worth_what_is_counted(n, rows):
    signature = "float32[:, ::1], float32[:, ::1], int64, float32"
    sizes = {"a": (rows, n), "out": (rows, n), "n": n}
    found = guarded.explain(signature, block=(8, 4), sizes=sizes, arch="sm_90")
    assert not found.is_sampled
    columns, inner = n * rows, (n - 2) * max(rows - 2, 0)
    rounds = len(range(2, n, 3))
    wanted = 2 * columns * rounds + inner * n * (n - 1) // 2 + -(-n // 2) * rows
    assert found.flops("float32") == wanted
    formula = found.formulas.flops["float32"]
    assert found.formulas.evaluate(formula) == pytest.approx(wanted)
    assert "share(line" in str(formula)
    requested = sum(each.itemsize * each.threads for each in found.accesses)
    assert found.formulas.evaluate(found.formulas.requested_bytes) == pytest.approx(requested)


def test_a_loop_over_the_grid_and_calls_are_counted_once_an_element():
    found = strides.explain(
        "float32[::1], float32[::1]", block=64, grid=3, sizes={"x": 1000, "out": 1000}, arch="sm_90"
    )
    assert found.flops() == 3000
    (formula,) = found.formulas.flops.values()
    assert formula == 3 * _symbol("x.shape[0]")


@pytest.mark.parametrize(("dtype", "real"), [("complex64", "f32"), ("complex128", "f64")])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_operations_on_complex_numbers_are_those_of_the_ptx(dtype, real, name):
    def add(a, b, out):
        i = kd.grid(1)
        out[i] = a[i] + b[i]

    def sub(a, b, out):
        i = kd.grid(1)
        out[i] = a[i] - b[i]

    def mul(a, b, out):
        i = kd.grid(1)
        out[i] *= b[i]

    def div(a, b, out):
        i = kd.grid(1)
        out[i] = a[i] / b[i]

    kernel = kd.kernel({"add": add, "sub": sub, "mul": mul, "div": div}[name])
    signature = ", ".join([f"{dtype}[::1]"] * 3)
    code = re.findall(
        rf"\b(add|sub|mul|div|fma)\.(?:rn\.)?{real}", kernel.ptx(signature, arch="sm_90")
    )
    wanted = len(code) + code.count("fma")
    found = kernel.explain(signature, block=64, grid=1, arch="sm_90", occupancy=False)
    assert found.flops(f"float{real[1:]}") == found.flops() == 64 * wanted
    (formula,) = found.formulas.flops.values()
    assert found.formulas.evaluate(formula) == found.flops()


def test_float64_divisions_and_divergence_are_found():
    @kd.kernel
    def slips(x, out, n):
        i = kd.grid(1)
        v = x[i] * 2.5
        if i % 2 == 0:
            v += x[i // n]
        else:
            v -= x[i % n]
        for _ in range(i % 32):
            v = v * v
        out[i] = v

    found = slips.explain(
        "float32[::1], float32[::1], int64", block=64, sizes={"n": 7}, arch="sm_90"
    )
    kinds = {}
    for each in found.findings:
        kinds.setdefault(each.kind, []).append(each)
    assert "np.float32(2.5)" in next(
        each.remedy for each in kinds["float64"] if "2.5" in each.where.line
    )
    assert [each.number for each in kinds["integer division"]] == [512, 512]
    assert all("np.uint32(…)" in each.remedy for each in kinds["integer division"])
    branch, loop = sorted(kinds["divergence"], key=lambda each: each.where.lineno)
    assert branch.number == pytest.approx(0.5)
    assert loop.number == pytest.approx(sum(range(32)) / 31 / 32)
    assert found.roofline.roof == "memory"


def test_occupancy_is_that_of_code_for_the_sizes_of_the_launch():
    from kerneldsl.contract import Promises
    from kerneldsl.errors import ToolMissingError

    signature = "float32[:, ::1], float32[:, ::1]"
    compiler, general = unpadded.specialization(signature, target="cuda", arch="sm_90")
    narrow = replace(general, promises=Promises(is_narrow=True))
    try:
        resources = compiler.compile(narrow).resources()
        general_resources = unpadded.resources(signature, arch="sm_90")
    except ToolMissingError as error:
        pytest.skip(str(error))
    found = unpadded.explain(signature, block=(32, 32), arch="sm_90")
    assert found.occupancy is not None
    assert found.occupancy.kernel.registers == resources.registers
    assert found.occupancy.block_threads == 1024
    assert f"{resources.registers} registers a thread" in str(found)
    sizes = {"a": (2**30, 4)}
    large = unpadded.explain(signature, block=(32, 32), grid=1, arch="sm_90", sizes=sizes)
    assert large.occupancy is not None
    assert large.occupancy.kernel.registers == general_resources.registers
    none = unpadded.explain(signature, block=(32, 32), arch="sm_90", occupancy=False)
    assert none.occupancy is None


def test_a_division_in_32_bits_is_left_as_it_is():
    """`np.uint32` around both operands divides in 32 bits: in the code, and in what is advised."""

    @kd.kernel
    def narrow(x, out, n):
        i = kd.grid(1)
        out[i] = x[np.uint32(i) // np.uint32(n)]

    @kd.kernel
    def signed(x, out, n):
        i = kd.grid(1)
        out[i] = x[(i - 3) // n]

    signature = "float32[::1], float32[::1], int64"
    assert "div.u32" in narrow.ptx(signature, arch="sm_90")
    assert "div.s64" not in narrow.ptx(signature, arch="sm_90")
    for kernel in (narrow, signed):
        found = kernel.explain(signature, sizes={"n": 7}, arch="sm_90", occupancy=False)
        (finding,) = (each for each in found.findings if each.kind == "integer division")
        assert "np.uint32(…)" not in finding.remedy
