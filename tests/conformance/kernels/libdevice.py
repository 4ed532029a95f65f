"""Every libdevice function that has a meaning on the CPU, within the CUDA guide's bounds.

What rounds in a direction of its own a GPU has alone: ``tests/ptx/test_libdevice.py``.

References
----------
CUDA C++ Programming Guide, appendix "Mathematical Functions", tables of maximum ulp errors, of
intrinsic functions too.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

import kerneldsl as kd
from kerneldsl.language.intrinsics.libdevice import FUNCTIONS
from tests.support.arrays import poisoned
from tests.support.cases import CaseList
from tests.support.libdevice import EXACT, NARROWED, real

__all__ = ["CASES", "COVERED"]

_list = CaseList("libdevice")
CASES = _list.cases
#: Functions of a kernel: as many rows its arrays have.
_ROWS = 4
_SIZE = 60
#: Names of the functions in cases.
COVERED: set[str] = set()

_S, _L = (-20.0, 20.0), (0.001, 100.0)
#: Of what is computed in float64 and rounded.
_NEAREST = 0.01
# name: (ranges of the arguments, bound of float32, bound of float64); a pair is of (cuda, cpu).
_REAL = {
    "sin": ((_S,), 2, 2),
    "cos": ((_S,), 2, 2),
    "tan": (((-1.5, 1.5),), 4, 2),
    "sincos": ((_S,), 2, 2),
    "sinpi": (((-5.0, 5.0),), (2, _NEAREST), (2, 1)),
    "cospi": (((-5.0, 5.0),), (2, _NEAREST), (2, 1)),
    "sincospi": (((-5.0, 5.0),), (2, _NEAREST), (2, 1)),
    "asin": (((-1.0, 1.0),), 4, 2),
    "acos": (((-1.0, 1.0),), 2, 2),
    "atan": ((_S,), 2, 2),
    "sinh": (((-10.0, 10.0),), 3, 2),
    "cosh": (((-10.0, 10.0),), 2, 2),
    "tanh": (((-5.0, 5.0),), 2, 2),
    "asinh": ((_S,), 4, 3),
    "acosh": (((1.0, 20.0),), 4, 3),
    "atanh": (((-0.99, 0.99),), 3, 2),
    "exp": ((_S,), 2, 2),
    "exp2": ((_S,), 2, 2),
    "exp10": ((_S,), (2, _NEAREST), (2, 1)),
    "expm1": (((-5.0, 5.0),), 2, 2),
    "log": ((_L,), 2, 2),
    "log2": ((_L,), 2, 2),
    "log10": ((_L,), 3, 2),
    "log1p": (((-0.9, 100.0),), 2, 2),
    "erf": (((-3.0, 3.0),), 2, 2),
    "erfc": (((-3.0, 5.0),), 6, 5),
    "erfinv": (((-1.0, 1.0),), (3, _NEAREST), (8, 2.5)),
    "erfcinv": (((0.0001, 1.9999),), (7, _NEAREST), (8, 4)),
    "erfcx": (((-4.0, 12.0),), (6, _NEAREST), (4, 2.5)),
    "normcdf": (((-12.0, 5.0),), (6, _NEAREST), (7, 6.5)),
    "normcdfinv": (((0.001, 0.999),), (5, _NEAREST), (8, 6)),
    "tgamma": (((0.5, 20.0),), 11, 10),
    "lgamma": (((3.0, 50.0),), 6, 4),
    "sqrt": ((_L,), _NEAREST, _NEAREST),
    "rsqrt": ((_L,), (2, _NEAREST), (2, 1)),
    "cbrt": ((_S,), 2, 2),
    "rcbrt": (((0.1, 90.0),), (2, _NEAREST), (2, 1)),
    "hypot": ((_S, _S), 3, 2),
    "rhypot": ((_S, _S), (2, _NEAREST), (2, 1.5)),
    "norm3d": ((_S, _S, _S), (3, _NEAREST), (2, 1)),
    "rnorm3d": ((_S, _S, _S), (2, _NEAREST), (2, 1.5)),
    "norm4d": ((_S, _S, _S, _S), (3, _NEAREST), (2, 1)),
    "rnorm4d": ((_S, _S, _S, _S), (2, _NEAREST), (2, 1.5)),
    "atan2": ((_S, _S), 3, 2),
    "pow": (((0.1, 10.0), (-5.0, 5.0)), 9, 2),
    "powi": (((0.5, 2.0), (-7, 8)), 16, 16),
    "cyl_bessel_i0": (((-40.0, 40.0),), (6, _NEAREST), (7, 2.5)),
    "cyl_bessel_i1": (((-40.0, 40.0),), (6, _NEAREST), (7, 2.5)),
    # Away from the zeros, around which the bounds are absolute ones.
    "j0": (((0.0, 1.8),), (9, _NEAREST), 7),
    "j1": (((0.5, 3.0),), (9, _NEAREST), 7),
    "y0": (((1.4, 3.4),), (9, _NEAREST), 7),
    "y1": (((0.5, 1.8),), (9, _NEAREST), 7),
    "jn": (((0, 3), (1.0, 2.0)), (300, 64), (400_000, 64)),
    "yn": (((0, 3), (1.2, 1.9)), (300, 64), (400_000, 64)),
}
_FAST = {
    "fast_sinf": (((0.6, 2.4),), 8),
    "fast_cosf": (((-0.9, 0.9),), 8),
    "fast_tanf": (((0.4, 1.0),), 32),
    "fast_sincosf": (((0.6, 0.9),), 8),
    "fast_tanhf": (((0.1, 3.0),), 16384),
    "fast_expf": (((-5.0, 5.0),), 8),
    "fast_exp10f": (((-2.0, 2.0),), 8),
    "fast_logf": (((3.0, 100.0),), 4),
    "fast_log2f": (((3.0, 100.0),), 4),
    "fast_log10f": (((3.0, 100.0),), 4),
    "fast_powf": (((1.2, 4.0), (1.0, 3.0)), 64),
    "fast_fdividef": (((1.0, 9.0), (1.0, 9.0)), 2),
    "frsqrt_rn": ((_L,), _NEAREST),
}


def _kernel(functions, arity, results):
    """Return a kernel that calls a function in each row."""
    a, b, c, d = functions

    @kd.kernel
    def unary(x, o):
        i = kd.grid(1)
        o[0, i] = a(x[0, i])
        o[1, i] = b(x[1, i])
        o[2, i] = c(x[2, i])
        o[3, i] = d(x[3, i])

    @kd.kernel
    def binary(x, y, o):
        i = kd.grid(1)
        o[0, i] = a(x[0, i], y[0, i])
        o[1, i] = b(x[1, i], y[1, i])
        o[2, i] = c(x[2, i], y[2, i])
        o[3, i] = d(x[3, i], y[3, i])

    @kd.kernel
    def ternary(x, y, z, o):
        i = kd.grid(1)
        o[0, i] = a(x[0, i], y[0, i], z[0, i])
        o[1, i] = b(x[1, i], y[1, i], z[1, i])
        o[2, i] = c(x[2, i], y[2, i], z[2, i])
        o[3, i] = d(x[3, i], y[3, i], z[3, i])

    @kd.kernel
    def of_four(x, y, z, w, o):
        i = kd.grid(1)
        o[0, i] = a(x[0, i], y[0, i], z[0, i], w[0, i])
        o[1, i] = b(x[1, i], y[1, i], z[1, i], w[1, i])
        o[2, i] = c(x[2, i], y[2, i], z[2, i], w[2, i])
        o[3, i] = d(x[3, i], y[3, i], z[3, i], w[3, i])

    @kd.kernel
    def unary_to_two(x, o, p):
        i = kd.grid(1)
        o[0, i], p[0, i] = a(x[0, i])
        o[1, i], p[1, i] = b(x[1, i])
        o[2, i], p[2, i] = c(x[2, i])
        o[3, i], p[3, i] = d(x[3, i])

    @kd.kernel
    def binary_to_two(x, y, o, p):
        i = kd.grid(1)
        o[0, i], p[0, i] = a(x[0, i], y[0, i])
        o[1, i], p[1, i] = b(x[1, i], y[1, i])
        o[2, i], p[2, i] = c(x[2, i], y[2, i])
        o[3, i], p[3, i] = d(x[3, i], y[3, i])

    if results == 2:
        return unary_to_two if arity == 1 else binary_to_two
    return (unary, binary, ternary, of_four)[arity - 1]


def _add(names, row, references, draw, **fields):
    """Add a case of at most four functions of one signature."""
    padded = [*names, *names[-1:] * (_ROWS - len(names))]
    arity = len(row.argument_dtypes)

    def arguments(rng):
        given = [draw(rng, name) for name in padded]
        inputs = [np.stack(each) for each in zip(*given, strict=True)]
        return *inputs, *(poisoned((_ROWS, _SIZE), dtype) for dtype in row.result_dtypes)

    def expected(*args):
        each = [references[n](*(x[k] for x in args[:arity])) for k, n in enumerate(padded)]
        columns = list(zip(*each, strict=True)) if len(row.result_dtypes) == 2 else [each]
        return {arity + k: np.stack(column) for k, column in enumerate(columns)}

    functions = [FUNCTIONS[f"libdevice.{name}"] for name in padded]
    kernel = _kernel(functions, arity, len(row.result_dtypes))
    name = "_".join(dict.fromkeys(padded))
    _list.add(name, kernel, arguments, extent=(_SIZE,), expected=expected, **fields)
    COVERED.update(names)


def _in_batches(names, key):
    """Yield at most four names each that have the same signature, and the same key."""
    groups = defaultdict(list)
    for name in names:
        row = FUNCTIONS[f"libdevice.{name}"]
        groups[row.argument_dtypes, row.result_dtypes, key(name)].append(name)
    for (*_, shared), group in groups.items():
        for start in range(0, len(group), _ROWS):
            batch = group[start : start + _ROWS]
            yield batch, FUNCTIONS[f"libdevice.{batch[0]}"], shared


_LIMITS: dict[str, tuple] = {}
for _name, (_ranges, _single, _double) in _REAL.items():
    _LIMITS[f"{_name}f"], _LIMITS[_name] = (_ranges, _single), (_ranges, _double)
_LIMITS |= _FAST


def _uniform(rng, name):
    row = FUNCTIONS[f"libdevice.{name}"]
    ranges = _LIMITS[name][0]
    for dtype, (low, high) in zip(row.argument_dtypes, ranges, strict=True):
        drawn = (rng.integers if "int" in dtype else rng.uniform)(low, high, _SIZE)
        yield drawn.astype(dtype)


for _names, _row, _bound in _in_batches(_LIMITS, lambda name: _LIMITS[name][1]):
    _ulp = {"cuda": _bound[0], "cpu": _bound[1]} if isinstance(_bound, tuple) else _bound
    _references = {name: real(name) for name in _names}
    if _bound == 0:  # of which the nearest number is asked
        _references = {name: lambda x, f=f: f(x).astype(x.dtype) for name, f in _references.items()}
    _add(_names, _row, _references, _uniform, ulp=_ulp)

_SPECIAL_FLOATS = (
    0.0,
    -0.0,
    np.inf,
    -np.inf,
    np.nan,
    0.5,
    -0.5,
    1.5,
    -2.5,
    1e-40,
    3e9,
    -1e19,
    1e30,
)
#: What is neither 0 nor infinite, where a quotient is asked for.
_REGULAR = ("remainder", "remainderf", "remquo", "remquof", "fmod", "fmodf")
_SHIFTED = ("ldexp", "ldexpf", "scalbn", "scalbnf")


def _of_every_kind(rng, name):
    """Draw numbers of all sizes and special ones; whole numbers of all widths."""
    for place, dtype in enumerate(FUNCTIONS[f"libdevice.{name}"].argument_dtypes):
        kind = np.dtype(dtype)
        if kind.kind == "f":
            size = rng.uniform(-3, 3 if name in _REGULAR else 12, _SIZE)
            drawn = (10.0**size * rng.choice([-1, 1], _SIZE)).astype(kind)
            if name not in _REGULAR:
                drawn[: len(_SPECIAL_FLOATS)] = rng.permutation(_SPECIAL_FLOATS)
        elif name in _SHIFTED and place:
            drawn = rng.integers(-1100, 1100, _SIZE).astype(kind)
        else:
            limits = np.iinfo(kind)
            drawn = rng.integers(limits.min, limits.max, _SIZE, kind, endpoint=True)
            drawn >>= rng.integers(0, 8 * kind.itemsize, _SIZE).astype(kind)
            drawn[:4] = limits.min, limits.max, 0, 1
        yield drawn


def _exactly(name):
    row = FUNCTIONS[f"libdevice.{name}"]
    function = EXACT[name]
    kinds = [np.dtype(dtype) for dtype in row.result_dtypes]

    def cast(value, kind):
        if kind.kind == "f":
            return np.asarray(value).astype(kind)
        number = int(value) & ((1 << 8 * kind.itemsize) - 1)
        return np.array(number, f"u{kind.itemsize}").view(kind)

    def reference(*arrays):
        with np.errstate(all="ignore"):
            found = [function(*values) for values in zip(*arrays, strict=True)]
        if len(kinds) == 1:
            return np.array([cast(value, kinds[0]) for value in found])
        columns = zip(*found, strict=True)
        return tuple(
            np.array([cast(v, kind) for v in column])
            for kind, column in zip(kinds, columns, strict=True)
        )

    return reference


for _names, _row, _ in _in_batches(
    [n for n in EXACT if f"libdevice.{n}" in FUNCTIONS], lambda name: name in _REGULAR
):
    _add(_names, _row, {name: _exactly(name) for name in _names}, _of_every_kind)

# Numbers that a float32 cannot hold.
_add(
    list(NARROWED),
    FUNCTIONS["libdevice.double2float_rn"],
    {
        name: lambda x, narrow=narrow: np.array([narrow(value) for value in x])
        for name, narrow in NARROWED.items()
    },
    lambda rng, name: [rng.choice([-1, 1], _SIZE) * 10.0 ** rng.uniform(-44, 38, _SIZE)],
)
