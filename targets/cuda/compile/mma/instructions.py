"""Instructions that multiply the fragments of a warp, for each dtype and architecture.

One *step* multiplies 16 rows of `a` and 8 columns of `b` over 32 bytes along k. It adds to the
four accumulators of each lane. A lane has four registers of `a` and two of `b`, or two elements
and one of 64 bits. All instructions
of the table have the operands in this order, so a step is the same code for every architecture.

A step calls a function by name, which is defined once the architecture is known
(:mod:`targets.cuda.intrinsics.by_architecture`). It is one instruction, or several smaller ones.

References
----------
PTX ISA, sections "Matrix multiply-accumulate operation using mma instruction" (figures of the
fragments of m16n8k8, m16n8k16, m16n8k32, m8n8k16 and m8n8k4), "PTX ISA Notes" and "Target ISA
Notes".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from llvmlite import ir

from kerneldsl.utilities.dataclasses import dataclass
from targets.cuda.architectures import Architecture, PtxVersion
from targets.cuda.compile.requirements import FLOAT8_PRODUCTS
from targets.cuda.intrinsics.synchronize import call_nvvm

__all__ = ["STEPS", "STEP_BYTES", "Form", "Step", "find_step"]

#: Bytes along k of one step.
STEP_BYTES = 32

_I32, _FLOAT, _DOUBLE = ir.IntType(32), ir.FloatType(), ir.DoubleType()
_HALVES = ir.VectorType(ir.HalfType(), 2)

#: Multiplies: of the builder, four registers of `a`, two of `b` and four accumulators.
_Writer: TypeAlias = Callable[
    [ir.IRBuilder, Sequence[ir.Value], Sequence[ir.Value], Sequence[ir.Value]], Sequence[ir.Value]
]


@dataclass(frozen=True)
class Form:
    """The instruction of a step on some architectures."""

    #: The instruction, as PTX spells its shape and types.
    instruction: str
    #: The first compute capability with it, as :attr:`Architecture.number` has it.
    since: int
    #: The first PTX ISA version with it.
    since_ptx: PtxVersion
    #: Writes it.
    write: _Writer
    #: Whether the instruction multiplies floats of 8 bits.
    is_of_8_bits: bool = False

    def has_narrow_sums(self, arch: Architecture) -> bool:
        """Return whether its sums may have fewer bits than the accumulators.

        For compute capability 9.0 to 11.0, ptxas converts 8-bit floats to float16 for it.
        """
        return self.is_of_8_bits and not 90 <= arch.number < 120

    def is_in(self, arch: Architecture, ptx_version: PtxVersion) -> bool:
        """Return whether an architecture and a PTX ISA version have it."""
        return arch.number >= self.since and ptx_version >= self.since_ptx


@dataclass(frozen=True)
class Step:
    """Multiplication of one fragment of `a` and one of `b`."""

    #: Names of the dtypes of `a` and `b`.
    dtypes: tuple[str, str]
    #: Name of the dtype of the accumulators.
    accumulator: str
    #: Bytes of an element of `a` or `b`.
    itemsize: int
    #: The instructions, the newest first.
    forms: tuple[Form, ...]

    @property
    def name(self) -> str:
        """Name of the function that a step calls."""
        return "matrix_product_" + "_".join(self.dtypes)

    @property
    def depth(self) -> int:
        """Elements along k."""
        return STEP_BYTES // self.itemsize

    @property
    def register(self) -> ir.Type:
        """Type of an accumulator."""
        return {"float32": _FLOAT, "float64": _DOUBLE}.get(self.accumulator, _I32)

    @property
    def factors(self) -> tuple[list[ir.Type], list[ir.Type]]:
        """Types of the registers of `a` and of `b`: elements of 64 bits, or words."""
        return ([_DOUBLE] * 2, [_DOUBLE]) if self.itemsize == 8 else ([_I32] * 4, [_I32] * 2)

    @property
    def kind(self) -> ir.FunctionType:
        """Type of the function: the four accumulators in memory, and the registers."""
        pointer, (a, b) = self.register.as_pointer(), self.factors
        return ir.FunctionType(ir.VoidType(), (pointer, *a, *b))

    def form(self, arch: Architecture, ptx_version: PtxVersion) -> Form | None:
        """Return the instruction of an architecture, ``None`` if it has none."""
        return next((each for each in self.forms if each.is_in(arch, ptx_version)), None)

    def define(
        self,
        builder: ir.IRBuilder,
        args: Sequence[ir.Value],
        arch: Architecture,
        ptx_version: PtxVersion,
    ) -> None:
        """Write the body of the function for an architecture."""
        memory, *registers = args
        places = [builder.gep(memory, [_I32(number)]) for number in range(4)]
        given = [builder.load(place) for place in places]
        form = self.form(arch, ptx_version)
        assert form is not None
        count = len(self.factors[0])
        found = form.write(builder, registers[:count], registers[count:], given)
        for place, value in zip(places, found, strict=True):
            builder.store(value, place)


def _call(
    name: str,
    operand: ir.Type,
    builder: ir.IRBuilder,
    a: Sequence[ir.Value],
    b: Sequence[ir.Value],
    c: Sequence[ir.Value],
) -> list[ir.Value]:
    """Write one instruction; `operand` is the type that LLVM has for the registers of `a`, `b`."""
    result = ir.LiteralStructType([each.type for each in c])
    given = [each if each.type == operand else builder.bitcast(each, operand) for each in (*a, *b)]
    found = call_nvvm(builder, f"mma.{name}", result, [*given, *c])
    return [builder.extract_value(found, number) for number in range(len(c))]


def _twice(
    name: str,
    operand: ir.Type,
    builder: ir.IRBuilder,
    a: Sequence[ir.Value],
    b: Sequence[ir.Value],
    c: Sequence[ir.Value],
) -> Sequence[ir.Value]:
    """Write two instructions of half the depth."""
    for half in range(2):
        c = _call(name, operand, builder, a[2 * half : 2 * half + 2], b[half : half + 1], c)
    return c


def _by_rows(
    name: str,
    builder: ir.IRBuilder,
    a: Sequence[ir.Value],
    b: Sequence[ir.Value],
    c: Sequence[ir.Value],
) -> Sequence[ir.Value]:
    """Write two instructions of half the rows."""
    low = _call(name, b[0].type, builder, a[:1], b, c[:2])
    return [*low, *_call(name, b[0].type, builder, a[1:], b, c[2:])]


def _by_quarters(
    name: str,
    builder: ir.IRBuilder,
    a: Sequence[ir.Value],
    b: Sequence[ir.Value],
    c: Sequence[ir.Value],
) -> Sequence[ir.Value]:
    """Write four instructions, of half the rows and half the depth."""
    found = list(c)
    for half in range(2):
        for rows in range(2):
            own = slice(2 * rows, 2 * rows + 2)
            given = a[2 * half + rows : 2 * half + rows + 1]
            found[own] = _call(name, _I32, builder, given, b[half : half + 1], found[own])
    return found


def _as_halves(
    dtypes: tuple[str, str],
    write: _Writer,
    builder: ir.IRBuilder,
    a: Sequence[ir.Value],
    b: Sequence[ir.Value],
    c: Sequence[ir.Value],
) -> Sequence[ir.Value]:
    """Convert numbers of 8 bits to 16, and write two steps of those.

    The elements along k are in another order than in memory, in the same one for `a` and `b`.
    """
    one, two = dtypes
    pairs_a = [_as_half_pairs(builder, one, each) for each in a]
    pairs_b = [_as_half_pairs(builder, two, each) for each in b]
    for half in range(2):
        low, high = pairs_a[2 * half : 2 * half + 2]
        c = write(builder, [low[0], high[0], low[1], high[1]], pairs_b[half], c)
    return c


_HALF_80 = Form("m16n8k16.f16", 80, (7, 0), partial(_call, "m16n8k16.row.col.f32.f32", _HALVES))
_HALF_75 = Form("m16n8k8.f16", 75, (6, 5), partial(_twice, "m16n8k8.row.col.f32.f32", _HALVES))
_BRAIN = Form("m16n8k16.bf16", 80, (7, 0), partial(_call, "m16n8k16.row.col.bf16", _I32))
_DOUBLES = Form("m8n8k4.f64", 80, (7, 0), partial(_by_rows, "m8n8k4.row.col.f64"))
_SINGLE = Form("m16n8k8.tf32", 80, (7, 0), partial(_call, "m16n8k8.row.col.tf32", _I32))


def _integers() -> list[Step]:
    found = []
    letters = {"int8": "s8", "uint8": "u8"}
    for one, first in letters.items():
        for two, second in letters.items():
            name = first if first == second else f"{first}.{second}"
            new = partial(_call, f"m16n8k32.row.col.{name}", _I32)
            old = partial(_by_quarters, f"m8n8k16.row.col.{name}")
            forms = (
                Form(f"m16n8k32.{name}", 80, (7, 0), new),
                Form(f"m8n8k16.{name}", 75, (6, 5), old),
            )
            found.append(Step((one, two), "int32", 1, forms))
    return found


def _eight_bits() -> list[Step]:
    found = []
    letters = {"float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2"}
    for one, first in letters.items():
        for two, second in letters.items():
            name, dtypes = f"f32.{first}.{second}.f32", (one, two)
            new = partial(_call, f"m16n8k32.row.col.{name}", _I32)
            forms = (
                Form(f"m16n8k32.{first}.{second}", *FLOAT8_PRODUCTS, new, True),
                *(
                    Form(
                        each.instruction,
                        each.since,
                        each.since_ptx,
                        partial(_as_halves, dtypes, each.write),
                    )
                    for each in (_HALF_80, _HALF_75)
                ),
            )
            found.append(Step(dtypes, "float32", 1, forms))
    return found


#: Each step by the name of its function.
STEPS = {
    each.name: each
    for each in (
        Step(("float16", "float16"), "float32", 2, (_HALF_80, _HALF_75)),
        Step(("bfloat16", "bfloat16"), "float32", 2, (_BRAIN,)),
        Step(("float32", "float32"), "float32", 4, (_SINGLE,)),
        Step(("float64", "float64"), "float64", 8, (_DOUBLES,)),
        *_integers(),
        *_eight_bits(),
    )
}


def find_step(one: str, two: str) -> Step | None:
    """Return the step for operands of two dtypes; of float32 it rounds them to tf32."""
    return STEPS.get(f"matrix_product_{one}_{two}")


# Conversion of floats of 8 bits in registers to floats of 16.

_WORDS = ir.VectorType(ir.IntType(16), 2)
#: Bytes of (word, zero) for ``prmt``: each byte above a byte of zeros.
_SPREAD = 0x1404, 0x3424
#: float8_e4m3fn has an exponent of four bits with a bias of 7, float16 of five with a bias of 15.
_SCALE = 2.0**8


def _as_half_pairs(builder: ir.IRBuilder, dtype: str, word: ir.Value) -> list[ir.Value]:
    """Return four numbers in a register as two registers of two numbers each.

    The conversion is exact. A float8_e5m2 is the upper byte of a float16.
    """
    found = []
    for places in _SPREAD:
        pair = call_nvvm(builder, "prmt", _I32, [word, _I32(0), _I32(places)])
        found.append(pair if dtype == "float8_e5m2" else _of_e4m3(builder, pair))
    return found


def _of_e4m3(builder: ir.IRBuilder, pair: ir.Value) -> ir.Value:
    magnitude = builder.and_(pair, _I32(0x7F007F00))
    bits = builder.or_(builder.lshr(magnitude, _I32(1)), builder.and_(pair, _I32(0x80008000)))
    scale = ir.Constant(_HALVES, [_SCALE, _SCALE])
    number = builder.bitcast(builder.fmul(builder.bitcast(bits, _HALVES), scale), _WORDS)
    # All bits of the magnitude are set in its only NaN.
    nan = ir.Constant(_WORDS, [0x7F00, 0x7F00])
    is_nan = builder.icmp_unsigned("==", builder.bitcast(magnitude, _WORDS), nan)
    found = builder.select(is_nan, ir.Constant(_WORDS, [0x7E00, 0x7E00]), number)
    return builder.bitcast(found, _I32)
