"""Names of records' element types, and which structured dtypes have one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerneldsl.language.element_types import ELEMENT_TYPES, element_name, numpy_dtype
from kerneldsl.language.kinds import ArrayKind
from kerneldsl.language.records import layout_of_name, record_name

_TYPES = st.sampled_from(
    ["bool", "int8", "uint16", "int32", "uint64", "float32", "float64", "complex64", "complex128"]
)
_INNER = st.sampled_from(
    [np.dtype([("x", "f4"), ("n", "i1", (2,))], align=is_aligned) for is_aligned in (False, True)]
)
_DEEP = _INNER.map(lambda inner: np.dtype([("n", "i2"), ("in", inner, (3,)), ("z", "c8")]))
_SHAPES = st.lists(st.integers(1, 4), max_size=3).map(tuple)
_NAMES = st.lists(
    st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_é]{0,6}", fullmatch=True),
    min_size=1,
    max_size=6,
    unique=True,
)


@st.composite
def dtypes(draw: st.DrawFn) -> np.dtype:
    """Structured dtypes: packed, aligned, and with fields at places in another order."""
    names = draw(_NAMES)
    formats = [(draw(_TYPES | _INNER | _DEEP), draw(_SHAPES)) for _ in names]
    fields = [(name, *each) for name, each in zip(names, formats, strict=True)]
    plain = np.dtype(fields, align=draw(st.booleans()))
    if draw(st.booleans()):
        return plain
    offsets, end = {}, draw(st.integers(0, 9))
    for position in draw(st.permutations(range(len(names)))):
        offsets[names[position]] = end
        end += plain[position].itemsize + draw(st.integers(0, 5))
    where = [offsets[name] for name in names]
    return np.dtype({"names": names, "formats": formats, "offsets": where, "itemsize": end})


@given(dtypes())
def test_a_name_says_the_whole_layout(dtype: np.dtype) -> None:
    name = element_name(dtype)
    assert name is not None
    again = numpy_dtype(name)
    assert again == dtype
    assert again.isalignedstruct == dtype.isalignedstruct
    assert record_name(again) == name == layout_of_name(name).name
    row = ELEMENT_TYPES[name]
    assert (row.name, row.nbytes, row.alignment) == (name, dtype.itemsize, dtype.alignment)
    assert row.is_record
    assert row.kind.value == "V"
    assert ArrayKind(name, 1).element is row


def test_aligned_and_packed_records_are_two_types_though_numpy_has_them_equal() -> None:
    packed, aligned = np.dtype("f4,f4"), np.dtype("f4,f4", align=True)
    assert packed == aligned
    assert element_name(packed) != element_name(aligned)
    assert [ELEMENT_TYPES[element_name(d)].alignment for d in (packed, aligned)] == [1, 4]


def test_what_is_in_a_packed_record_is_packed() -> None:
    inner = np.dtype([("a", "i1"), ("x", "f4")], align=True)
    packed = element_name(np.dtype([("k", "i1"), ("inner", inner)]))
    aligned = element_name(np.dtype([("k", "i1"), ("inner", inner)], align=True))
    assert packed == "Record(k: int8 @ 0, inner: Record(a: int8 @ 0, x: float32 @ 4; 8) @ 1; 9)"
    assert aligned is not None
    assert "x: float32 @ 4; 8 aligned) @ 4; 12 aligned" in aligned


@pytest.mark.parametrize(
    "dtype",
    [
        np.dtype([("x", "f4"), ("when", "M8[s]")]),
        np.dtype([("x", ">f4")]),
        np.dtype([("inner", [("when", "M8[s]")])]),
        np.dtype([("inner", [("two words", "f4")], (2,))]),
        np.dtype([("x", "f4", (2, 0))]),
        np.dtype([("two words", "f4")]),
        np.dtype([(("title", "x"), "f4")]),
        np.dtype({"names": ["x", "y"], "formats": ["f4", "i4"], "offsets": [0, 2]}),
        np.dtype([]),
        np.dtype("V8"),
    ],
    ids=str,
)
def test_other_structures_have_none(dtype: np.dtype) -> None:
    assert element_name(dtype) is None


def test_what_is_no_record_is_not_in_the_table() -> None:
    nested = "Record(x: Record(y: float32 @ 0; 4 @ 0; 4)"
    for name in ("float33", "Record(x)", "Record", nested, "Record(x: float32 @ 0; 4))"):
        with pytest.raises(KeyError):
            ELEMENT_TYPES[name]
        assert name not in ELEMENT_TYPES


def test_a_record_has_a_row_that_is_not_listed() -> None:
    name = "Record(x: float32 @ 0; 4)"
    assert name in ELEMENT_TYPES
    assert name not in list(ELEMENT_TYPES)
    assert [(f.name, f.dtype) for f in ELEMENT_TYPES[name].fields] == [("x", "float32")]
