"""Declare what PTX has and the language has no word of its own for.

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
    "Instructions of PTX, with `$0`, `$1`, … for what they give and then for the values that "
    "follow the text; `out` is the dtype of what they give, or a tuple of dtypes. Unless `pure`, "
    "they are run as often as they stand there, and no access to memory is moved across them.",
    Typing.INLINE,
    ("text", "out", "pure"),
    Scope.THREAD,
    static=("text", "out", "pure"),
    defaults={"out": None, "pure": False},
    instead="the operation with Python's operators and the words of kd",
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


_FIELD = "the `length` bits of `a` from bit `position` on"
_BEYOND = "`position` and `length` are 0 to 255."
_HIGHEST = "The position of the highest bit of `a` that is 1, 0xffffffff if there is none"
_WORDS = (
    _word(
        "prmt",
        "Four of the eight bytes of `a` and `b`, as `byte_perm` picks them; where the highest of "
        "four bits of `selector` is 1, eight copies of the sign of the byte.",
        "a b selector",
        "uint32 uint32 uint32",
        "uint32",
    ),
    _word(
        "lop3",
        "For each bit, the bit of `lut` that three bits number: `a`'s worth 4, `b`'s 2, `c`'s 1.",
        "a b c",
        "uint32 uint32 uint32",
        "uint32",
        static="lut",
    ),
    *(
        _word(
            f"bfe_u{width}",
            f"{_FIELD.capitalize()}, 0 above. {_BEYOND}",
            "a position length",
            f"uint{width} uint32 uint32",
            f"uint{width}",
        )
        for width in (32, 64)
    ),
    *(
        _word(
            f"bfe_s{width}",
            f"{_FIELD.capitalize()} as a signed number, with the highest bit of `a` beyond it. "
            f"{_BEYOND}",
            "a position length",
            f"int{width} uint32 uint32",
            f"int{width}",
        )
        for width in (32, 64)
    ),
    *(
        _word(
            f"bfi_b{width}",
            "`b` with the lowest `length` bits of `a` in the place of its own from bit `position` "
            f"on. {_BEYOND}",
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
            f"{_HIGHEST}; of a negative number the highest that is 0.",
            "a",
            f"int{width}",
            "uint32",
        )
        for width in (32, 64)
    ),
    *(
        _word(
            f"{name}_approx_f32",
            f"{meaning} by the GPU's approximation; the CPU's is exact.",
            "x",
            "float32",
            "float32",
        )
        for name, meaning in {
            "ex2": "2 to the power of `x`,",
            "lg2": "The binary logarithm of `x`",
            "rcp": "1 / `x`",
            "tanh": "The hyperbolic tangent of `x`, from compute capability 7.5 on,",
        }.items()
    ),
    _register(
        "clock64",
        "The multiprocessor's counter of cycles.",
        "uint64",
        "kernel launches between two kd.Event",
    ),
    _register(
        "globaltimer",
        "Nanoseconds of the GPU's clock, which goes on in steps of up to a microsecond.",
        "uint64",
        "kernel launches between two kd.Event",
    ),
    _register(
        "smid",
        "The number of the multiprocessor that runs the thread's block.",
        "uint32",
        "kd.blockIdx.x",
    ),
)

nv = IntrinsicGroup("nv", {word.name.partition(".")[2]: word for word in _WORDS})
