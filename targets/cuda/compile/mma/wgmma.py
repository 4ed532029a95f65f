"""Products of operands in shared memory by warpgroups: instructions and descriptors.

A result is in registers while the instruction runs, so it passes through each instruction and
through the wait as a value. Else LLVM would copy registers in between, and the assembler then waits
after every instruction.

References
----------
PTX ISA, section "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions": "Register
Fragments and Shared Memory Matrix Layouts", "Matrix descriptor format", "wgmma.mma_async".
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from llvmlite import ir

from kerneldsl.utilities.dataclasses import dataclass
from targets.cuda.architectures import Architecture, PtxVersion
from targets.cuda.intrinsics.synchronize import call_nvvm

__all__ = [
    "FORMS",
    "ROW_BYTES",
    "STEP_BYTES",
    "WARPGROUP",
    "WARPGROUP_ROWS",
    "Form",
    "Instruction",
    "Wait",
    "begin",
    "commit",
    "descriptor",
    "find_function",
    "moved",
]

#: Threads of a warpgroup, and the rows that an instruction multiplies.
WARPGROUP, WARPGROUP_ROWS = 128, 64
#: Bytes of an operand along k that one instruction takes.
STEP_BYTES = 32
#: Bytes of a row of shared memory that its 16-byte parts are exchanged in.
ROW_BYTES = 128
_ROWS_TOGETHER = 8
#: Prefixes of the names of functions.
_MULTIPLY, _WAIT = "warpgroup_product_", "warpgroup_wait_"

_VOID, _I32, _I64 = ir.VoidType(), ir.IntType(32), ir.IntType(64)
_FLOAT = ir.FloatType()
#: Fields of a matrix descriptor: mask of the address, and the bit of the 128-byte swizzle.
_ADDRESS_BITS = 0x3FFFF
_EXCHANGED_128 = 1 << 62


@dataclass(frozen=True)
class Form:
    """An instruction for operands of some dtypes."""

    #: Names of the dtypes of the factors.
    dtypes: tuple[str, str]
    #: Types of result and operands, as PTX spells them.
    types: str
    #: Bytes of an element of an operand.
    itemsize: int
    #: Type of an element of the result.
    register: ir.Type
    #: Modifiers after the predicate.
    modifiers: str
    #: Whether operands may be stored with contiguous columns.
    may_exchange: bool = False
    #: Whether sums have less precision than their type.
    is_promoted: bool = False

    @property
    def depth(self) -> int:
        """Elements along k."""
        return STEP_BYTES // self.itemsize

    def has_columns(self, columns: int) -> bool:
        """Return whether there is the instruction for so many columns of the result."""
        if not 8 <= columns <= 256 or columns % 8:
            return False
        return self.register != _I32 or columns % 16 == 0 or columns in (8, 24)


def _forms() -> dict[tuple[str, str], Form]:
    floats = {"float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2"}
    integers = {"int8": "s8", "uint8": "u8"}
    halves = {"float16": "f16", "bfloat16": "bf16"}
    found = [
        Form((name, name), f"f32.{word}.{word}", 2, _FLOAT, ", 1, 1", may_exchange=True)
        for name, word in halves.items()
    ]
    found.append(Form(("float32", "float32"), "f32.tf32.tf32", 4, _FLOAT, ", 1, 1"))
    for (one, first), (two, second) in product(floats.items(), repeat=2):
        types = f"f32.{first}.{second}"
        found.append(Form((one, two), types, 1, _FLOAT, ", 1, 1", is_promoted=True))
    for (one, first), (two, second) in product(integers.items(), repeat=2):
        found.append(Form((one, two), f"s32.{first}.{second}", 1, _I32, ""))
    return {each.dtypes: each for each in found}


#: Instructions by the dtypes of the operands; float32 is rounded to tf32.
FORMS = _forms()


def descriptor(builder: ir.IRBuilder, address: ir.Value, panel_bytes: int = 0) -> ir.Value:
    """Describe an operand at an address of shared memory, in 32 bits.

    Its rows of 128 bytes are along k. With `panel_bytes` they are across k, and that is the
    distance of parts of the operand beside each other.
    """
    low = builder.lshr(builder.and_(address, _I32(_ADDRESS_BITS)), _I32(4))
    leading = panel_bytes // 16 if panel_bytes else 1
    rows = ROW_BYTES * _ROWS_TOGETHER // 16
    fixed = _EXCHANGED_128 | rows << 32 | leading << 16
    return builder.or_(builder.zext(low, _I64), _I64(fixed))


def moved(builder: ir.IRBuilder, found: ir.Value, nbytes: int) -> ir.Value:
    """Return the descriptor of an operand so many bytes further on, in memory of one block."""
    return builder.add(found, _I64(nbytes // 16)) if nbytes else found


def begin(builder: ir.IRBuilder) -> None:
    """Order earlier accesses of registers before the next instruction."""
    call_nvvm(builder, "wgmma.fence.sync.aligned", _VOID, [])


def commit(builder: ir.IRBuilder) -> None:
    """Let a wait be for the instructions so far."""
    call_nvvm(builder, "wgmma.commit_group.sync.aligned", _VOID, [])


@dataclass(frozen=True)
class Instruction:
    """One instruction, as a function that kernels call by its name.

    The function takes the registers of the results in memory, and the descriptors of the factors.
    Once it is inlined, the memory is registers.
    """

    form: Form
    #: Columns of the result.
    columns: int
    #: Whether the rows of each factor are across k.
    exchanged: tuple[bool, ...]
    #: Whether products are added to the contents of the registers.
    adds: bool
    #: Whether the first factor is in registers, four of them.
    has_own_rows: bool = False

    @property
    def name(self) -> str:
        """Name of the function."""
        words = [*self.form.dtypes, str(self.columns)]
        flags = "".join(str(int(each)) for each in (*self.exchanged, self.adds, self.has_own_rows))
        return f"{_MULTIPLY}{'-'.join(words)}-{flags}".replace("-", "__")

    @classmethod
    def of_name(cls, name: str) -> Instruction:
        """Return the instruction of a function."""
        one, two, columns, flags = name.removeprefix(_MULTIPLY).split("__")
        first, second, adds, own = (each == "1" for each in flags)
        return cls(FORMS[one, two], int(columns), (first, second), adds, own)

    @property
    def count(self) -> int:
        """Registers of a thread."""
        return self.columns * WARPGROUP_ROWS // WARPGROUP

    @property
    def kind(self) -> ir.FunctionType:
        """Type of the function."""
        first = [_I32] * 4 if self.has_own_rows else [_I64]
        return ir.FunctionType(_VOID, (self.form.register.as_pointer(), *first, _I64))

    def define(
        self,
        builder: ir.IRBuilder,
        args: Sequence[ir.Value],
        arch: Architecture,
        ptx_version: PtxVersion,
    ) -> None:
        """Write the body of the function."""
        form, count = self.form, self.count
        memory, *factors = args
        numbers = [f"${number}" for number in range(count + len(factors))]
        registers, first = ", ".join(numbers[:count]), ", ".join(numbers[count:-1])
        exchanged = self.exchanged
        if self.has_own_rows:
            first, exchanged = f"{{{first}}}", exchanged[1:]
        modifiers = form.modifiers
        if form.may_exchange:
            modifiers += "".join(f", {int(each)}" for each in exchanged)
        text = (
            f"{{ .reg .pred p; setp.ne.b32 p, {int(self.adds)}, 0; "
            f"wgmma.mma_async.sync.aligned.m64n{self.columns}k{form.depth}.{form.types} "
            f"{{{registers}}}, {first}, {numbers[-1]}, p{modifiers}; }}"
        )
        letters = ["l" if each.type == _I64 else "r" for each in factors]
        _change(builder, text, letters, factors, memory, count)


@dataclass(frozen=True)
class Wait:
    """The wait for instructions, as a function of the registers that they change and read."""

    register: ir.Type
    #: Registers of a thread that they change.
    count: int
    #: Number of the last groups of instructions that may still run.
    pending: int = 0
    #: Registers of a thread that they read.
    words: int = 0

    @property
    def name(self) -> str:
        """Name of the function."""
        letter = "float" if self.register == _FLOAT else "int"
        return f"{_WAIT}{self.count}_{letter}_{self.pending}_{self.words}"

    @classmethod
    def of_name(cls, name: str) -> Wait:
        """Return the wait of a function."""
        count, register, pending, words = name.removeprefix(_WAIT).split("_")
        kind = _FLOAT if register == "float" else _I32
        return cls(kind, int(count), int(pending), int(words))

    @property
    def kind(self) -> ir.FunctionType:
        """Type of the function."""
        return ir.FunctionType(_VOID, (self.register.as_pointer(), *[_I32] * self.words))

    def define(
        self,
        builder: ir.IRBuilder,
        args: Sequence[ir.Value],
        arch: Architecture,
        ptx_version: PtxVersion,
    ) -> None:
        """Write the body of the function."""
        text = f"wgmma.wait_group.sync.aligned {self.pending};"
        memory, *words = args
        letters = ["r"] * self.words
        _change(builder, text, letters, words, memory, self.count, also=["~{memory}"])


def find_function(name: str) -> Instruction | Wait:
    """Return what a function of this module is, by its name."""
    return (Wait if name.startswith(_WAIT) else Instruction).of_name(name)


def _change(
    builder: ir.IRBuilder,
    text: str,
    letters: list[str],
    operands: Sequence[ir.Value],
    memory: ir.Value,
    count: int,
    also: Sequence[str] = (),
) -> None:
    """Write an instruction that changes registers, which pass through it as values."""
    places = [builder.gep(memory, [_I32(number)]) for number in range(count)]
    given = [builder.load(place) for place in places]
    letter = "f" if given[0].type == _FLOAT else "r"
    numbers = [str(number) for number in range(count)]
    constraints = ",".join([f"={letter}"] * count + letters + numbers + list(also))
    result = ir.LiteralStructType([each.type for each in given])
    values = [*operands, *given]
    kind = ir.FunctionType(result, [each.type for each in values])
    assembly = ir.InlineAsm(kind, text, constraints, side_effect=True)
    found = builder.call(assembly, values, attrs=("convergent",))
    for number, place in enumerate(places):
        builder.store(builder.extract_value(found, number), place)
