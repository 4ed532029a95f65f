"""PTX's own words that have a meaning on every target."""

from __future__ import annotations

import numpy as np

import kerneldsl as kd
from tests.support.arrays import poisoned
from tests.support.cases import CaseList
from tests.support.ptx_words import NV

__all__ = ["CASES"]

_list = CaseList("ptx_words")
CASES = _list.cases
_SIZE = 77


def _words(rng, kind):
    """Draw numbers of every width, with the ends."""
    limits = np.iinfo(kind)
    drawn = rng.integers(limits.min, limits.max, _SIZE, kind, endpoint=True)
    drawn >>= rng.integers(0, limits.bits, _SIZE).astype(kind)
    drawn[:4] = limits.min, limits.max, 0, 1
    return rng.permutation(drawn)


def _places(rng):
    """Draw positions and lengths, most of them in a word."""
    drawn = rng.integers(0, 70, _SIZE).astype(np.uint32)
    drawn[:6] = 0, 31, 32, 63, 64, 255
    return rng.permutation(drawn)


@kd.kernel
def permute(a, b, s, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = kd.nv.prmt(a[i], b[i], s[i])


_list.add(
    "prmt",
    permute,
    lambda rng: (*(_words(rng, np.uint32) for _ in range(3)), poisoned(_SIZE, np.uint32)),
    grid=(3,),
    block=(32,),
)

MAJORITY = 0xF0 & 0xCC | 0xF0 & 0xAA | 0xCC & 0xAA


@kd.kernel
def look_up(a, b, c, out):
    i = kd.grid(1)
    out[0, i] = kd.nv.lop3(a[i], b[i], c[i], MAJORITY)
    out[1, i] = kd.nv.lop3(a[i], b[i], c[i], 0)
    out[2, i] = kd.nv.lop3(a[i], b[i], c[i], lut=0xFF)
    out[3, i] = kd.nv.lop3(a[i], b[i], c[i], 0x96)


_list.add(
    "lop3",
    look_up,
    lambda rng: (*(_words(rng, np.uint32) for _ in range(3)), poisoned((4, _SIZE), np.uint32)),
    extent=(_SIZE,),
)


def _ternary(word):
    @kd.kernel
    def ternary(a, b, c, out):
        i = kd.grid(1)
        out[i] = word(a[i], b[i], c[i])

    return ternary


def _fields(word):
    @kd.kernel
    def insert(a, b, position, length, out):
        i = kd.grid(1)
        out[i] = word(a[i], b[i], position[i], length[i])

    return insert


def _unary(word):
    @kd.kernel
    def unary(a, out):
        i = kd.grid(1)
        out[i] = word(a[i])

    return unary


def _each(name):
    """Return the reference of a word, thread by thread."""
    function = getattr(NV, name)

    def expected(*args):
        *given, out = args
        return {len(given): np.array([function(*v) for v in zip(*given, strict=True)], out.dtype)}

    return expected


for _width in (32, 64):
    for _sign, _kind in (("u", f"uint{_width}"), ("s", f"int{_width}")):
        _list.add(
            f"bfe_{_sign}{_width}",
            _ternary(getattr(kd.nv, f"bfe_{_sign}{_width}")),
            lambda rng, k=_kind: (_words(rng, k), _places(rng), _places(rng), poisoned(_SIZE, k)),
            extent=(_SIZE,),
            expected=_each(f"bfe_{_sign}{_width}"),
        )
        _list.add(
            f"bfind_{_sign}{_width}",
            _unary(getattr(kd.nv, f"bfind_{_sign}{_width}")),
            lambda rng, k=_kind: (_words(rng, k), poisoned(_SIZE, np.uint32)),
            extent=(_SIZE,),
            expected=_each(f"bfind_{_sign}{_width}"),
        )
    _list.add(
        f"bfi_b{_width}",
        _fields(getattr(kd.nv, f"bfi_b{_width}")),
        lambda rng, k=f"uint{_width}": (
            _words(rng, k),
            _words(rng, k),
            _places(rng),
            _places(rng),
            poisoned(_SIZE, k),
        ),
        extent=(_SIZE,),
        expected=_each(f"bfi_b{_width}"),
    )

# In units of the last place: of the instructions (PTX ISA: 2 ** -22.5, 2 ** -22 in absolute terms,
# 1 unit and 2 ** -11), and of the CPU's functions.
for _name, _low, _high, _bound in (
    ("ex2_approx_f32", -9.0, 9.0, 4),
    ("lg2_approx_f32", 3.0, 900.0, 6),
    ("rcp_approx_f32", 0.01, 90.0, 1),
    ("tanh_approx_f32", 0.1, 4.0, 16384),
):
    _list.add(
        _name,
        _unary(getattr(kd.nv, _name)),
        lambda rng, a=_low, b=_high: (
            rng.uniform(a, b, _SIZE).astype(np.float32),
            poisoned(_SIZE, np.float32),
        ),
        extent=(_SIZE,),
        expected=lambda x, out, name=_name: {1: getattr(NV, name)(x)},
        ulp={"cuda": _bound, "cpu": 2},
    )
