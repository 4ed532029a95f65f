"""The oracle's operations against Numba's own compiled code, and what it says of whole programs."""

from __future__ import annotations

import operator

import numba
import numpy as np
import pytest

from tests.fuzz import oracle, typing
from tests.support.arrays import assert_same_bits, random_array
from tests.support.extent import sample

_SIZE = 40
_WIDE = ("int32", "int64", "uint32", "uint64", "float32", "float64")
#: Every pair of wide types; a narrow one with itself, int64 and float32.
_PAIRS = [(a, b) for a in _WIDE for b in _WIDE] + [
    pair
    for narrow in ("int8", "int16", "uint8", "uint16")
    for other in (narrow, "int64", "float32")
    for pair in {(narrow, other), (other, narrow)}
]


def _values(rng: np.random.Generator, dtype: str) -> np.ndarray:
    values = random_array(rng, _SIZE, dtype)
    values[::2] = rng.integers(0, 20, values[::2].shape)
    return values


@pytest.mark.parametrize(
    "op", ["+", "-", "*", "/", "//", "%", "&", "|", "^", "<<", ">>", "<", "=="]
)
def test_binary_operations(op: str, rng: np.random.Generator) -> None:
    function = typing._OPERATORS[op]
    compiled = numba.njit(error_model="numpy")(lambda a, b: function(a, b))
    for left, right in sample(_PAIRS, 6):
        if op not in ("+", "-", "*", "/", "<", "==") and {left, right} & set(typing.FLOATS):
            continue
        for a, b in zip(_values(rng, left), _values(rng, right), strict=True):
            if op in ("<<", ">>"):
                b = typing.cast(int(b) & 15, right)
            if op in ("//", "%"):
                b = typing.cast((int(b) & 7) + 1, right)
            with np.errstate(all="ignore"):
                got = compiled(a, b)
                if op in ("<", "=="):
                    assert bool(got) == typing.compare(op, a, b), (op, a, b, left, right)
                    continue
                mine = typing.binary(op, a, b)
            wide = np.array(got).astype(mine.dtype)
            assert_same_bits(wide, np.array(mine), f"{a!r} {op} {b!r}")


@pytest.mark.parametrize("op", ["neg", "invert", "abs"])
def test_unary_operations(op: str, rng: np.random.Generator) -> None:
    function = {"neg": operator.neg, "invert": operator.invert, "abs": abs}[op]
    compiled = numba.njit(lambda a: function(a))
    for dtype in typing.INTEGERS if op == "invert" else typing.DTYPES:
        for a in _values(rng, dtype):
            with np.errstate(all="ignore"):
                mine = typing.unary(op, a)
            assert_same_bits(np.array(compiled(a)).astype(mine.dtype), np.array(mine), repr(a))


@pytest.mark.parametrize("dtype", typing.DTYPES)
def test_conversions(dtype: str, rng: np.random.Generator) -> None:
    kind = getattr(np, dtype)
    compiled = numba.njit(lambda a: kind(a))
    sources = typing.INTEGERS if dtype in typing.INTEGERS else typing.DTYPES
    for source in sample(sources, 5):
        for a in _values(rng, source):
            mine = typing.cast(a, dtype)
            assert_same_bits(np.array(compiled(a)).astype(dtype), np.array(mine), repr(a))


def _run(body: str, size: int, dtype: str = "int64", functions: str = "") -> np.ndarray:
    """What a kernel of a block of threads leaves in `out`; `x` holds 0.1 as float32."""
    lines = "\n    ".join(body.splitlines())
    out, x = np.zeros(size, dtype), np.full(size, 0.1, np.float32)
    text = f"{functions}\ndef kernel(out, x):\n    t = kd.threadIdx.x\n    {lines}\n"
    oracle.run(text, (1,), (size,), (out, x))
    return out


_SWAP = """
def swap(s, t, v):
    s[t] = v
    kd.syncthreads()
    r = s[3 - t]
    kd.syncthreads()
    return r
"""


def test_a_barrier_in_a_device_function() -> None:
    body = "s = kd.shared.array(4, np.int64)\nout[t] = swap(s, t, t * 2)"
    assert list(_run(body, 4, functions=_SWAP)) == [6, 4, 2, 0]


def test_an_augmented_assignment_reads_its_target_first() -> None:
    body = "s = kd.shared.array(4, np.int64)\ns[t] = 100\ns[t] += swap(s, t, t)\nout[t] = s[t]"
    assert list(_run(body, 4, functions=_SWAP)) == [103, 102, 101, 100]


def test_both_branches_of_a_conditional_expression_have_one_type() -> None:
    """float32 times itself is rounded, float64 is not."""
    value = np.float64(np.float32(0.1))
    assert _run("v = x[t] if t < 3 else 0.0\nout[t] = v * v", 2, "float64")[0] == value**2
    assert _run("v = x[t]\nout[t] = v * v", 2, "float64")[0] != value**2


def test_an_atomic_in_a_tuple_takes_place() -> None:
    assert list(_run("out[0 if t else 1] = (kd.atomic.add(out, 2, 1), t)[1]", 3))[2] == 3


def test_votes_count_the_threads_that_are_left() -> None:
    assert list(_run("if t == 0:\n    return\nout[t] = kd.syncthreads_count(t > 1)", 4)) == [
        0,
        2,
        2,
        2,
    ]


def test_integers_wrap_as_they_are_stored() -> None:
    body = "s = kd.shared.array(4, np.uint8)\ns[t] = 300 + t\ns[t] -= 45\nout[t] = s[t]"
    assert list(_run(body, 2)) == [255, 0]


def test_barriers_that_diverge_are_an_error() -> None:
    with pytest.raises(oracle.DivergentBarrierError, match="threads wait at"):
        _run("if t < 2:\n    kd.syncthreads()\nelse:\n    kd.syncthreads()", 4)


def test_indices_of_an_extent() -> None:
    """A launch by forall gives indices in the extent's order."""
    out = np.zeros((2, 3), np.int64)
    oracle.run(
        "def kernel(out):\n    i, j = kd.grid(2)\n    out[i, j] = 10 * i + j\n",
        (2, 3),
        (1,),
        (out,),
    )
    assert out.tolist() == [[0, 1, 2], [10, 11, 12]]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 2.0**63, -(2.0**64), 1e300])
def test_undefined_conversions(value: float) -> None:
    """A float that int64 does not hold has no value that all machines agree on."""
    with pytest.raises(typing.UndefinedConversionError):
        typing.cast(np.float64(value), "int64")
    assert typing.cast(np.float64(-(2.0**63)), "int64") == -(2**63)
    assert typing.cast(np.float32(-0.5), "uint8") == 0


def test_lanes_of_a_warp_exchange_values() -> None:
    assert list(_run("out[t] = kd.shfl_down_sync(4294967295, t, 1)", 34)) == [
        *range(1, 32),
        31,
        33,
        33,
    ]


def test_a_mask_names_who_exchanges_values() -> None:
    body = """
v = 10 * t
if t % 2:
    out[t] = kd.shfl_xor_sync(10, v, 2)
else:
    out[t] = kd.shfl_sync(5, v, 2) + kd.shfl_sync(5, v, 0)
kd.syncthreads()
out[t] += kd.laneid
"""
    assert list(_run(body, 4)) == [20, 31, 22, 13]


def test_an_exchange_that_a_named_lane_never_reaches_is_an_error() -> None:
    with pytest.raises(oracle.DivergentBarrierError, match="threads wait at"):
        _run("if t < 2:\n    kd.shfl_sync(15, t, 0)\nelse:\n    kd.syncthreads()", 4)


def test_a_warp_barrier_without_a_mask_is_of_all_lanes() -> None:
    assert list(_run("out[t] = t\nkd.syncwarp()\nout[t] += 1", 34)) == [*range(1, 35)]


def test_votes_of_a_warp() -> None:
    body = "p = t % 3 == 0\nout[t] = kd.popc(kd.ballot_sync(15, p)) + 10 * kd.all_sync(15, t < 4)"
    assert list(_run(body + "\nout[t] += 20 * kd.any_sync(15, t == 9)", 4)) == [12] * 4


def test_vectors_wrap_and_take_numbers_from_either_side() -> None:
    body = """
v = 3 * kd.view(x, kd.float32x4)[0] - kd.float32x4(0.25, t, 2, 3)
out[t] = v.y + 100 * len(v)
"""
    assert _run(body, 4, "float32")[1] == np.float32(3) * np.float32(0.1) - 1 + 400
    body = "v = kd.int8x2(100, t)\nv += v\nw = kd.shared.array(2, kd.int8x2)\nw[t] = -v\n"
    body += "kd.syncthreads()\nout[t] = w[1 - t].x + 1000 * w[1 - t][1]"
    assert list(_run(body, 2)) == [56 - 2000, 56]


def test_packed_numbers_begin_in_the_lowest_bits() -> None:
    body = "w = kd.local.array(2, np.uint8)\nw[0] = 0x9F\nw[1] = 0x30\n"
    body += "p = kd.packed(w, kd.int4)\nout[t] = p[t] + 100 * p.size"
    assert list(_run(body, 4)) == [399, 393, 400, 403]


def test_hints_change_no_access() -> None:
    body = "kd.store(out, t, 2.0 * kd.load(out, -1 - t, cache='streaming') + t, 'through')"
    assert list(_run(body, 3)) == [0, 1, 2]


@pytest.mark.parametrize("loop", ["for l in range(3):", "l = -1\nwhile l < 2:\n    l += 1"])
def test_lanes_of_one_turn_of_a_loop_meet(loop: str) -> None:
    """A lane that leaves a word out waits for the others in the next turn, not in this one."""
    inside = "if l != t:\n        v = v * 10 + kd.warp.count(True)"
    inside += "\n    if l == 1 and t == 3:\n        break"
    found = _run(f"v = 0\n{loop}\n    {inside}\nout[t] = v", 4)
    assert list(found) == [32, 32, 33, 33]
