"""Casts between every two dtypes, and stores into narrower elements."""

from __future__ import annotations

import numpy as np

from tests.conformance.kernels.reference import INTEGERS, SIZE, unary_case
from tests.support.arrays import poisoned, random_array
from tests.support.cases import CaseList

__all__ = ["CASES"]

_list = CaseList("conversions")
CASES = _list.cases


def _integer_casts(a, out, i):
    out[0, i] = np.int8(a)
    out[1, i] = np.int16(a)
    out[2, i] = np.int32(a)
    out[3, i] = np.int64(a)
    out[4, i] = np.uint8(a)
    out[5, i] = np.uint16(a)
    out[6, i] = np.uint32(a)
    out[7, i] = int(a)
    out[8, i] = np.bool_(a)
    out[9, i] = bool(a)


_cast_kernel, _cast_expected = unary_case(_integer_casts)
for _name in (*INTEGERS, "bool"):
    _list.add(
        f"casts_from_{_name}",
        _cast_kernel,
        lambda rng, d=_name: (random_array(rng, SIZE, d), poisoned((10, SIZE), np.int64)),
        extent=(SIZE,),
        expected=_cast_expected,
    )


def _float_casts(a, out, i):
    out[0, i] = np.float32(a)
    out[1, i] = np.float64(a)
    out[2, i] = float(a)
    out[3, i] = np.float64(np.float32(a)) + np.float64(a)


_to_float_kernel, _to_float_expected = unary_case(_float_casts)
for _name in (*INTEGERS, "float32", "float64"):
    _list.add(
        f"casts_to_float_from_{_name}",
        _to_float_kernel,
        lambda rng, d=_name: (random_array(rng, SIZE, d), poisoned((4, SIZE), np.float64)),
        extent=(SIZE,),
        expected=_to_float_expected,
    )


def _float_to_integer(a, out, i):
    out[0, i] = np.int32(a)
    out[1, i] = np.int64(a)
    out[2, i] = int(a)
    out[3, i] = round(a)
    out[4, i] = np.int8(a * 0.1)
    out[5, i] = np.uint16(abs(a))


_from_float_kernel, _from_float_expected = unary_case(_float_to_integer)
for _name in ("float32", "float64"):
    _list.add(
        f"casts_to_integer_from_{_name}",
        _from_float_kernel,
        lambda rng, d=_name: (
            np.concatenate([rng.uniform(-999, 999, SIZE), np.arange(-4, 4) + 0.5]).astype(d),
            poisoned((6, SIZE + 8), np.int64),
        ),
        extent=(SIZE + 8,),
        expected=_from_float_expected,
    )


def _stores_narrow(a, out, i):
    out[0, i] = a
    out[1, i] = a + 1
    out[2, i] = a * 3


_narrow_kernel, _narrow_expected = unary_case(_stores_narrow)
for _name, _to in (("int64", "int8"), ("int64", "uint32"), ("uint64", "int32"), ("int32", "uint8")):
    _list.add(
        f"stores_{_name}_into_{_to}",
        _narrow_kernel,
        lambda rng, d=_name, t=_to: (random_array(rng, SIZE, d), poisoned((3, SIZE), t)),
        extent=(SIZE,),
        expected=_narrow_expected,
    )
