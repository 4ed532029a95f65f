"""The table of element types agrees with NumPy, ctypes, struct, DLPack and Numba."""

from __future__ import annotations

import ctypes
import importlib.util
import operator
import re
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba.core.registry import cpu_target
from numba.np.numpy_support import from_dtype

import kerneldsl as kd
from kerneldsl.contract.abi import ParameterLayout
from kerneldsl.language.element_types import (
    DTYPE_NAMES,
    ELEMENT_TYPES,
    NUMPY_NAMES,
    Atomics,
    ElementKind,
    ElementType,
    names_of,
    numpy_dtype,
)
from kerneldsl.language.kinds import ArrayKind, ScalarKind
from kerneldsl.language.signatures import parse_signature
from kerneldsl.launch.arguments.arguments import find_reader
from kerneldsl.launch.arguments.binding import Binding, bits_of, kinds_of, value_of
from kerneldsl.lowering.types import element_type
from kerneldsl.memory import dlpack

HAS_ML_DTYPES = importlib.util.find_spec("ml_dtypes") is not None
#: Those whose NumPy dtype can be had here.
ROWS = [ELEMENT_TYPES[n] for n in DTYPE_NAMES if n in NUMPY_NAMES or HAS_ML_DTYPES]
ROOT = Path(__file__).resolve().parents[3]

every_row = pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])


def _dtype(row: ElementType) -> np.dtype:
    if row.name not in NUMPY_NAMES:
        importlib.import_module(row.package)
    return np.dtype(row.name)


# --------------------------------------------------------------------------- complete


def test_the_table_holds_the_scalar_types_of_the_public_face():
    scalars = {name for name in dir(kd) if isinstance(getattr(kd, name, None), type)}
    scalars = {name for name in scalars if issubclass(getattr(kd, name), np.generic)}
    assert {np.dtype(getattr(kd, name)).name for name in scalars} == {row.name for row in ROWS}


def test_every_element_type_has_a_numba_type_and_a_scalar_reader():
    for row in ROWS:
        binding = Binding()
        value = _dtype(row).type(1)
        code = find_reader(value)(value, binding)
        assert kinds_of((code,)) == (ScalarKind(row.name),)
        assert len(binding.values) == 1 + row.is_complex


def test_a_dtype_of_a_package_that_is_missing_is_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    numpy_dtype.cache_clear()
    with pytest.raises(kd.ToolMissingError, match="pip install ml_dtypes"):
        kd.zeros(3, "bfloat16")


@pytest.mark.parametrize(("rows", "kind"), [("bhilq", "SIGNED"), ("BHILQ", "UNSIGNED")])
def test_every_integer_type_of_numpy_is_in_the_table(rows, kind):
    assert {np.dtype(char).name for char in rows} == names_of(ElementKind[kind])


# --------------------------------------------------------------------------- NumPy, C, struct


@every_row
def test_numpy_agrees(row):
    dtype = _dtype(row)
    assert numpy_dtype(row.name) is dtype
    assert row.name == dtype.name
    assert (row.nbytes, row.alignment) == (dtype.itemsize, dtype.alignment)
    # ml_dtypes calls float8_e8m0fnu as float8_e4m3fn in the array interface.
    assert row.typestr == ("" if row.name == "float8_e8m0fnu" else dtype.str)
    assert row.kind.value == dtype.kind or row.package != "numpy"
    if row.package != "numpy":  # NumPy knows no kind of it
        return
    assert row.is_integer == np.issubdtype(dtype, np.integer)
    assert row.is_signed == np.issubdtype(dtype, np.signedinteger)
    assert row.is_unsigned == np.issubdtype(dtype, np.unsignedinteger)
    assert row.is_float == np.issubdtype(dtype, np.floating)
    assert row.is_complex == np.issubdtype(dtype, np.complexfloating)


@pytest.mark.parametrize("name", sorted(names_of(ElementKind.SIGNED, ElementKind.UNSIGNED)))
def test_integer_ranges_are_numpys(name):
    limits = np.iinfo(name)
    assert ELEMENT_TYPES[name].integer_range == (limits.min, limits.max)


@every_row
def test_c_types_have_the_size_and_alignment(row):
    part = ELEMENT_TYPES[row.arithmetic] if row.is_complex else row
    # C has no types of 8 and 16 bits for floats; they are aligned as integers are.
    kind = np.ctypeslib.as_ctypes_type(f"u{row.nbytes}" if row.is_narrow else _dtype(part))
    count = 2 if row.is_complex else 1
    assert (row.nbytes, row.alignment) == (count * ctypes.sizeof(kind), ctypes.alignment(kind))


@every_row
def test_struct_packs_a_parameter_as_numpy_stores_it(row):
    value = _dtype(row).type(1)
    parameters = ParameterLayout(("a",), (ScalarKind(row.name),))
    parts = (value.real, value.imag) if row.is_complex else (value.item(),)
    if row.is_passed_as_bits:
        parts = (bits_of(value),)
        assert value_of(*parts, row.name) == value
    assert parameters.packer.pack(*parts) == value.tobytes()
    assert bool(row.struct_code) != row.is_complex
    if row.struct_code:
        assert struct.calcsize(f"={row.struct_code}") == row.nbytes


@every_row
def test_short_names_are_numpys(row):
    short = row.typestr[1:] or row.name
    assert row.is_passed_as_bits or np.dtype(short).name == row.name
    assert parse_signature(f"{short}, {short}[:]") == (
        ScalarKind(row.name),
        ArrayKind(row.name, 1, "A"),
    )


# --------------------------------------------------------------------------- DLPack


@every_row
def test_dlpack_names_it_as_numpy_does(row):
    if row.is_passed_as_bits:
        # kDLBfloat, kDLFloat8_e4m3fn, kDLFloat8_e5m2 and kDLFloat8_e8m0fnu, which NumPy lacks.
        codes = {"bfloat16": 4, "float8_e4m3fn": 10, "float8_e5m2": 12, "float8_e8m0fnu": 14}
        assert codes[row.name] == row.dlpack_code
        return
    capsule = np.ones(3, row.name).__dlpack__()
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    tensor = dlpack._DLManagedTensor.from_address(get_pointer(capsule, b"dltensor")).dl_tensor
    found = (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes)
    assert found == (row.dlpack_code, 8 * row.nbytes, 1)
    assert dlpack._dtype(tensor.dtype) == _dtype(row)


def test_no_two_element_types_share_a_dlpack_name_or_typestr():
    assert len({(row.dlpack_code, row.nbytes) for row in ROWS}) == len(ROWS)
    assert len({row.typestr for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize(("code", "bits", "lanes"), [(2, 80, 1), (6, 32, 1), (5, 32, 1), (0, 8, 4)])
def test_other_dlpack_types_are_refused(code, bits, lanes):
    with pytest.raises(kd.ArgumentTypeError, match=f"code {code}, {bits} bits, {lanes} lanes"):
        dlpack._dtype(dlpack._DLDataType(code, bits, lanes))


def test_a_dtype_outside_the_table_is_not_exported():
    with kd.use("cpu"):
        array = kd.zeros(4, "int32")
    array.dtype = np.dtype("V4")
    with pytest.raises(BufferError, match="dtype"):
        array.__dlpack__()


# --------------------------------------------------------------------------- Numba and LLVM


@every_row
def test_numba_agrees(row):
    kind = element_type(row.name)
    assert row.is_narrow or kind == from_dtype(_dtype(row))
    context = cpu_target.target_context
    stored = context.get_data_type(kind)
    assert str(stored) == row.llvm
    assert context.get_abi_sizeof(stored) == row.nbytes
    assert context.get_abi_alignment(stored) == row.alignment


@every_row
def test_arithmetic_is_typed_as_numba_does(row):
    kind = element_type(row.name)
    typing = cpu_target.typing_context
    typing.refresh()
    result = typing.resolve_function_type(operator.add, (kind, kind), {}).return_type
    expected = row.name if row.is_narrow else row.arithmetic  # rounded after each operation
    assert str(getattr(result, "underlying_float", result)) == expected
    if row.is_narrow:
        mixed = typing.resolve_function_type(operator.add, (kind, element_type(row.arithmetic)), {})
        assert str(mixed.return_type) == row.arithmetic
    assert row.is_double == (row.arithmetic == "float64")


def test_atomics_are_on_integers_and_on_floats_but_of_8_bits():
    integers = {row.name for row in ROWS if row.is_integer}
    unsigned = {row.name for row in ROWS if row.nbytes in (4, 8) and row.is_unsigned}
    numbers = integers | {row.name for row in ROWS if row.is_float and row.nbytes > 1}
    for group, names in [
        (Atomics.ARITHMETIC, numbers),
        (Atomics.BITWISE, integers),
        (Atomics.WRAPPING, unsigned),
    ]:
        assert {row.name for row in ROWS if group in row.atomics} == names, group


# --------------------------------------------------------------------------- asked everywhere


def test_nothing_else_asks_numpy_for_the_properties_of_an_element_type():
    asked = re.compile(
        r"np\.dtype\([^)]*\)\.(itemsize|alignment|kind|str)\b|dtype\.startswith\(|from_dtype\("
    )
    numbas = ROOT / "kerneldsl/compat/numba_cuda/typing.py"  # gives programs Numba's own types
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for folder in ("kerneldsl", "targets")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if path != numbas
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if asked.search(line)
    ]
    assert not found


def test_the_table_and_the_kinds_need_no_numpy():
    code = (
        "import sys, kerneldsl.language.kinds, kerneldsl.language.element_types;"
        "assert not {'numpy', 'numba'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, cwd=ROOT)
