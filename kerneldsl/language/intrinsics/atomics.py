"""Declare atomic operations.

References
----------
CUDA C++ Programming Guide, section "Atomic Functions".
"""

from __future__ import annotations

from kerneldsl.language.element_types import ELEMENT_TYPES, Atomics
from kerneldsl.language.intrinsics.intrinsic import Effect, Intrinsic, IntrinsicGroup, Scope, Typing

__all__ = ["ATOMIC_ARITHMETIC", "ATOMIC_BITWISE", "ATOMIC_VECTORS", "ATOMIC_WRAPPING", "atomic"]


def _atomic_dtypes(group: Atomics) -> tuple[str, ...]:
    return tuple(row.name for row in ELEMENT_TYPES.values() if group in row.atomics)


#: dtypes of the arithmetic atomics, exchange and compare-and-swap.
ATOMIC_ARITHMETIC = _atomic_dtypes(Atomics.ARITHMETIC)
#: dtypes of the bitwise atomics.
ATOMIC_BITWISE = _atomic_dtypes(Atomics.BITWISE)
#: dtypes of the wrapping increment and decrement.
ATOMIC_WRAPPING = _atomic_dtypes(Atomics.WRAPPING)
#: Vectors that `atomic.add` supports, number by number.
ATOMIC_VECTORS = ("float32x2", "float32x4")


def _atomic(name: str, summary: str, dtypes: tuple[str, ...]) -> Intrinsic:
    return Intrinsic(
        f"atomic.{name}",
        f"{summary} Return the old value of the element.",
        Typing.ATOMIC,
        ("array", "index", "value"),
        Scope.THREAD,
        Effect.ATOMIC,
        dtypes=dtypes,
    )


#: The threads for which accesses are ordered: of the block, of the device, of all devices and host.
_SCOPES = ("block", "device", "system")


def _access(name: str, summary: str, values: tuple[str, ...], typing: Typing) -> Intrinsic:
    """Return an access that orders others; a load may acquire, a store may release."""
    orders = ("relaxed", {"load": "acquire", "store": "release"}[name], "seq_cst")
    return Intrinsic(
        f"atomic.{name}",
        summary,
        typing,
        ("array", "index", *values, "order", "scope"),
        Scope.THREAD,
        Effect.ATOMIC,
        dtypes=ATOMIC_ARITHMETIC,
        static=("order", "scope"),
        defaults={"order": "relaxed", "scope": "device"},
        choices={"order": orders, "scope": _SCOPES},
    )


atomic = IntrinsicGroup(
    "atomic",
    {
        "load": _access(
            "load",
            "Return an element, read in one access. After an `'acquire'` that reads the value of a "
            "`'release'`, the writes before the release are visible.",
            (),
            Typing.ATOMIC_LOAD,
        ),
        "store": _access(
            "store",
            "Write an element in one access. A `'release'` makes earlier writes visible to threads "
            "that acquire its value.",
            ("value",),
            Typing.ATOMIC_STORE,
        ),
        "add": _atomic(
            "add",
            "Add `value` to an element; vectors are added number by number, each atomically.",
            (*ATOMIC_ARITHMETIC, *ATOMIC_VECTORS),
        ),
        "sub": _atomic("sub", "Subtract `value` from an element.", ATOMIC_ARITHMETIC),
        "max": _atomic(
            "max",
            "Replace an element by the larger of it and `value`; if one is NaN, use the other.",
            ATOMIC_ARITHMETIC,
        ),
        "min": _atomic(
            "min",
            "Replace an element by the smaller of it and `value`; if one is NaN, use the other.",
            ATOMIC_ARITHMETIC,
        ),
        "exch": _atomic("exch", "Replace an element by `value`.", ATOMIC_ARITHMETIC),
        "cas": Intrinsic(
            "atomic.cas",
            "Replace an element by `value` if it equals `expected` (floats are compared as bits). "
            "Return the old value of the element.",
            Typing.ATOMIC_CAS,
            ("array", "index", "expected", "value"),
            Scope.THREAD,
            Effect.ATOMIC,
            dtypes=ATOMIC_ARITHMETIC,
        ),
        "and_": _atomic(
            "and_", "Replace an element by its bitwise and with `value`.", ATOMIC_BITWISE
        ),
        "or_": _atomic("or_", "Replace an element by its bitwise or with `value`.", ATOMIC_BITWISE),
        "xor": _atomic(
            "xor", "Replace an element by its bitwise xor with `value`.", ATOMIC_BITWISE
        ),
        "inc": _atomic(
            "inc", "Replace an element e by 0 if e >= value, else by e + 1.", ATOMIC_WRAPPING
        ),
        "dec": _atomic(
            "dec",
            "Replace an element e by value if e == 0 or e > value, else by e - 1.",
            ATOMIC_WRAPPING,
        ),
    },
)
