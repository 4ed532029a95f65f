"""Declare inline PTX and instructions of PTX without other intrinsics.

References
----------
PTX ISA, sections "Integer Arithmetic Instructions", "Logic and Shift Instructions", "Floating-Point
Instructions" and "Special Registers"; NVIDIA, "Inline PTX Assembly in CUDA".
"""

from __future__ import annotations

from kerneldsl.language.intrinsics.intrinsic import Intrinsic, IntrinsicGroup, Scope, Typing

__all__ = ["nv", "ptx"]

ptx = Intrinsic(
    "ptx",
    "Insert PTX instructions. `$0`, `$1`, … in the text are the results, and then the values that "
    "follow the text. `out` is the dtype of the result, or a tuple of dtypes. Unless `pure`, the "
    "instructions are neither removed nor repeated, and no memory access is moved across them.",
    Typing.INLINE,
    ("text", "out", "pure"),
    Scope.THREAD,
    static=("text", "out", "pure"),
    defaults={"out": None, "pure": False},
    instead="the operation with Python's operators and the intrinsics of kd",
)


def _word(
    name: str, summary: str, parameters: str, arguments: str, result: str, static: str = ""
) -> Intrinsic:
    return Intrinsic(
        f"nv.{name}",
        summary,
        Typing.DECLARED,
        (*parameters.split(), *static.split()),
        static=tuple(static.split()),
        argument_dtypes=tuple(arguments.split()),
        result_dtypes=(result,),
    )


def _register(name: str, summary: str, result: str, instead: str) -> Intrinsic:
    return Intrinsic(
        f"nv.{name}",
        summary,
        Typing.DECLARED,
        (),
        Scope.THREAD,
        result_dtypes=(result,),
        instead=instead,
    )


_FIELD = "Extract the `length` bits of `a` from bit `position` on"
_BEYOND = "`position` and `length` are 0 to 255."
_HIGHEST = "Return the position of the highest 1 bit of `a`, or 0xffffffff without one"
_WORDS = (
    _word(
        "prmt",
        "Select four of the eight bytes of `a` and `b` as `byte_perm` does. If the highest bit of "
        "a digit of `selector` is 1, the byte is eight copies of its sign.",
        "a b selector",
        "uint32 uint32 uint32",
        "uint32",
    ),
    _word(
        "lop3",
        "Look up each bit in `lut`, at the index with the bits of `a` (4), `b` (2) and `c` (1).",
        "a b c",
        "uint32 uint32 uint32",
        "uint32",
        static="lut",
    ),
    *(
        _word(
            f"bfe_u{width}",
            f"{_FIELD}, with 0 above. {_BEYOND}",
            "a position length",
            f"uint{width} uint32 uint32",
            f"uint{width}",
        )
        for width in (32, 64)
    ),
    *(
        _word(
            f"bfe_s{width}",
            f"{_FIELD} as a signed number, with the highest bit of `a` beyond it. {_BEYOND}",
            "a position length",
            f"int{width} uint32 uint32",
            f"int{width}",
        )
        for width in (32, 64)
    ),
    *(
        _word(
            f"bfi_b{width}",
            "Replace the `length` bits of `b` from bit `position` on by the lowest bits of `a`. "
            f"{_BEYOND}",
            "a b position length",
            f"uint{width} uint{width} uint32 uint32",
            f"uint{width}",
        )
        for width in (32, 64)
    ),
    *(
        _word(f"bfind_u{width}", f"{_HIGHEST}.", "a", f"uint{width}", "uint32")
        for width in (32, 64)
    ),
    *(
        _word(
            f"bfind_s{width}",
            f"{_HIGHEST}; for a negative number, of the highest 0 bit.",
            "a",
            f"int{width}",
            "uint32",
        )
        for width in (32, 64)
    ),
    *(
        _word(
            f"{name}_approx_f32",
            f"Compute {meaning} with the GPU's approximation; the CPU computes it exactly.",
            "x",
            "float32",
            "float32",
        )
        for name, meaning in {
            "ex2": "2 to the power of `x`,",
            "lg2": "the binary logarithm of `x`",
            "rcp": "1 / `x`",
            "tanh": "the hyperbolic tangent of `x`, from compute capability 7.5 on,",
        }.items()
    ),
    _register(
        "clock64",
        "Return the cycle counter of the multiprocessor.",
        "uint64",
        "kernel.forall(n).time(…) on the host",
    ),
    _register(
        "globaltimer",
        "Return the GPU's clock in nanoseconds; it advances in steps of up to a microsecond.",
        "uint64",
        "kernel.forall(n).time(…) on the host",
    ),
    _register(
        "smid",
        "Return the number of the multiprocessor that runs this block.",
        "uint32",
        "kd.blockIdx.x",
    ),
)

nv = IntrinsicGroup("nv", {word.name.partition(".")[2]: word for word in _WORDS})
