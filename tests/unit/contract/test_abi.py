"""Where arrays are among the parameters of an entry, against the parameters' names and dtypes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerneldsl.contract.abi import (
    EXPLICIT,
    LaunchMode,
    ParameterLayout,
    array_parameters,
    parameter_count,
)
from kerneldsl.language.element_types import DTYPE_NAMES, NUMPY_NAMES
from kerneldsl.language.kinds import ArrayKind, Kind, ScalarKind, TupleKind

_MODES = (EXPLICIT, LaunchMode(1), LaunchMode(2), LaunchMode(3))

_dtypes = st.sampled_from(DTYPE_NAMES)
_arrays = st.builds(ArrayKind, _dtypes, st.integers(1, 3), st.sampled_from("CFA"))
_points = st.builds(ArrayKind, _dtypes, st.just(0), st.just("C"))
_kinds = st.recursive(
    st.builds(ScalarKind, _dtypes) | _arrays | _points,
    lambda inner: st.lists(inner, max_size=3).map(lambda elements: TupleKind(tuple(elements))),
    max_leaves=5,
)
_signatures = st.lists(_kinds, max_size=5).map(tuple)


def _named_arrays(name: str, kind: Kind) -> Iterator[tuple[str, ArrayKind]]:
    if isinstance(kind, ArrayKind):
        yield name, kind
    elif isinstance(kind, TupleKind):
        for i, element in enumerate(kind.elements):
            yield from _named_arrays(f"{name}[{i}]", element)


@given(kinds=_signatures, mode=st.sampled_from(_MODES), debug=st.booleans())
def test_arrays_are_where_parameters_have_their_names(
    kinds: tuple[Kind, ...], mode: LaunchMode, debug: bool
) -> None:
    layout = ParameterLayout(tuple("abcde"[: len(kinds)]), kinds, mode, debug)
    names = [parameter.name for parameter in layout.parameters]
    expected = [
        (position, *named)
        for position, (name, kind) in enumerate(zip(layout.names, kinds, strict=True))
        for named in _named_arrays(name, kind)
    ]
    for array, (position, name, kind) in zip(layout.arrays, expected, strict=True):
        shape = [f"{name}.shape[{axis}]" for axis in range(kind.ndim)]
        strides = [
            f"{name}.strides[{axis}]" for axis in range(kind.ndim if kind.layout == "A" else 0)
        ]
        assert (array.kind, array.position) == (kind, position)
        assert names[array.pointer] == f"{name}.data"
        assert [names[number] for number in array.extents] == shape
        assert [names[number] for number in array.strides] == strides
        assert [names[number] for number in array.numbers] == [f"{name}.data", *shape, *strides]
        dtypes = [layout.parameters[number].dtype for number in array.numbers]
        assert dtypes == ["pointer", *["int64"] * (len(dtypes) - 1)]
    assert array_parameters(kinds) == layout.arrays


@given(kinds=_signatures)
def test_each_argument_has_as_many_parameters_as_begin_with_its_name(
    kinds: tuple[Kind, ...],
) -> None:
    layout = ParameterLayout(tuple("abcde"[: len(kinds)]), kinds)
    firsts = [parameter.name[0] for parameter in layout.parameters]
    for name, kind in zip(layout.names, kinds, strict=True):
        assert parameter_count(kind) == firsts.count(name)


@pytest.mark.parametrize("dtype", NUMPY_NAMES)
def test_elements_have_numpys_size(dtype: str) -> None:
    (array,) = array_parameters([ArrayKind(dtype, 1)])
    assert array.item_bytes == np.dtype(dtype).itemsize
