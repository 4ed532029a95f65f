"""Runs the integer instructions of one thread of a kernel's PTX, and notes its accesses to memory.

Results of floating-point instructions are hashes of their operands, and numbers in memory are
hashes of their addresses. So two texts of one kernel have the same ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from zlib import crc32

__all__ = ["Trace", "run_thread"]

#: Accesses to global memory: the instruction, its address, and what it stores.
Trace = list[tuple[str, int, tuple[int, ...]]]
_LABEL = re.compile(r"^([\w$]+):")
_STATEMENT = re.compile(r"^\s*(?:@(!?)(%\w+)\s+)?([a-z][\w.:]*)\s*(.*);")
_PART = re.compile(r"\{[^}]*\}|\[[^]]*\]|[^,\s][^,]*")
_PARAMETER = re.compile(r"\[[\w$]+_param_(\d+)\]")
_ADDRESS = re.compile(r"\[([%\w]+)(?:\+(-?\d+))?\]")
_COMPARE: Mapping[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
_ORDERED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


def run_thread(
    ptx: str, parameters: Sequence[int], special: Mapping[str, int], most_steps: int = 5_000
) -> Trace:
    """Return the accesses of one thread, in order.

    Parameters
    ----------
    ptx : str
        With one entry.
    parameters : sequence of int
        Its parameters; pointers are addresses.
    special : mapping of str to int
        Special registers, such as ``%tid.x``.
    most_steps : int
        After so many instructions the thread ends.
    """
    lines = ptx[ptx.index("\n{\n") :].splitlines()
    labels = {found[1]: n for n, line in enumerate(lines) if (found := _LABEL.match(line))}
    machine = _Machine(parameters, special)
    at = steps = 0
    while at < len(lines) and steps < most_steps:
        found = _STATEMENT.match(lines[at])
        at += 1
        if found is None:
            continue
        steps += 1
        negated, predicate, opcode, rest = found.groups()
        if predicate and bool(machine.values[predicate]) == bool(negated):
            continue
        operands = [part.strip() for part in _PART.findall(rest)]
        if opcode.startswith("bra"):
            at = labels[operands[0]]
        elif opcode in ("ret", "exit"):
            break
        else:
            machine.execute(opcode, operands)
    return machine.trace


def _signed(value: int, bits: int) -> int:
    return (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


class _Machine:
    def __init__(self, parameters: Sequence[int], special: Mapping[str, int]) -> None:
        self._parameters = parameters
        self.values: dict[str, int] = dict(special)
        self.trace: Trace = []

    def execute(self, opcode: str, operands: list[str]) -> None:
        """Execute one instruction."""
        name, *types = opcode.split(".")
        if name == "ld" and types[0] == "param":
            self._load_parameter(types[-1], operands)
        elif name in ("ld", "st", "atom", "red"):
            self._access(name, opcode, operands)
        elif name == "bar":
            pass
        elif name == "selp":
            self.values[operands[0]] = self._integer(name, types, operands)
        elif types and types[-1][0] == "f" and types[-1][1:].isdigit():
            self._make_up(opcode, operands)
        elif name == "setp":
            self.values[operands[0]] = self._compare(types, operands)
        else:
            self.values[operands[0]] = self._integer(name, types, operands)

    def _read(self, operand: str) -> int:
        if operand.startswith("%"):
            return self.values[operand]
        if operand[:2] in ("0f", "0d"):
            return int(operand[2:], 16)
        return int(operand, 0) if re.match(r"-?\d", operand) else crc32(operand.encode())

    def _load_parameter(self, kind: str, operands: list[str]) -> None:
        found = _PARAMETER.fullmatch(operands[1])
        assert found is not None
        self.values[operands[0]] = self._parameters[int(found[1])] % (1 << int(kind[1:]))

    def _access(self, name: str, opcode: str, operands: list[str]) -> None:
        place = next(n for n, each in enumerate(operands) if each.startswith("["))
        found = _ADDRESS.fullmatch(operands[place])
        assert found is not None
        address = (self._read(found[1]) + int(found[2] or 0)) % 2**64
        given = tuple(
            self._read(each) for each in re.findall(r"%\w+", "".join(operands[place + 1 :]))
        )
        if ".global" in opcode:
            self.trace.append((opcode, address, given))
        if place:
            for number, register in enumerate(re.findall(r"%\w+", operands[0])):
                value = crc32(f"{address + number}".encode())
                is_signed = opcode.rpartition(".")[2].startswith("s")
                self.values[register] = _signed(value, 32) % 2**64 if is_signed else value

    def _make_up(self, opcode: str, operands: list[str]) -> None:
        read = [self._read(each) for each in operands[1:]]
        made = crc32(f"{opcode} {read}".encode())
        self.values[operands[0]] = made % 2 if opcode.startswith("setp") else made

    def _compare(self, types: list[str], operands: list[str]) -> int:
        bits = int(types[-1][1:])
        read = [self._read(each) % (1 << bits) for each in operands[1:3]]
        if types[-1][0] == "s":
            read = [_signed(each, bits) for each in read]
        found = int(_COMPARE[_ORDERED.get(types[0], types[0])](*read))
        if len(operands) < 4:
            return found
        other = self._read(operands[3].removeprefix("!")) ^ operands[3].startswith("!")
        return {"and": found & other, "or": found | other, "xor": found ^ other}[types[1]]

    def _integer(self, name: str, types: list[str], operands: list[str]) -> int:
        kind = types[-1]
        if kind == "pred":
            read = [self._read(each) for each in operands[1:]]
            made = {"or": any(read), "and": all(read), "not": not read[0], "mov": read[0]}
            return int(made[name]) if name != "xor" else read[0] ^ read[1]
        bits = int(kind[1:])
        if name == "cvt":
            value = self._read(operands[1]) % (1 << bits)
            value = _signed(value, bits) if kind[0] == "s" else value
            return value % (1 << int(types[-2][1:]))
        is_wide = "wide" in types
        out = 2 * bits if is_wide else bits
        read = [self._read(each) for each in operands[1:]]
        if name == "selp":
            return (read[0] if read[2] else read[1]) % (1 << bits)
        narrow = read[:2] if is_wide else read
        numbers = [each % (1 << bits) for each in narrow] + (read[2:] if is_wide else [])
        if kind[0] == "s":
            numbers[:2] = [_signed(each, bits) for each in numbers[:2]]
        return self._arithmetic(name, types, numbers) % (1 << out)

    def _arithmetic(self, name: str, types: list[str], numbers: list[int]) -> int:
        one, *others = numbers
        if name == "mov":
            return one
        if name in ("neg", "not", "abs"):
            return {"neg": -one, "not": ~one, "abs": abs(one)}[name]
        if name == "popc":
            return one.bit_count()
        other = others[0]
        if "hi" in types:
            return (one * other >> int(types[-1][1:])) + (others[1] if name == "mad" else 0)
        made: dict[str, Callable[[], int]] = {
            "add": lambda: one + other,
            "sub": lambda: one - other,
            "mul": lambda: one * other,
            "mad": lambda: one * other + others[1],
            "min": lambda: min(one, other),
            "max": lambda: max(one, other),
            "shl": lambda: one << min(other, 64),
            "shr": lambda: one >> min(other, 64),
            "and": lambda: one & other,
            "or": lambda: one | other,
            "xor": lambda: one ^ other,
            "div": lambda: abs(one) // max(abs(other), 1) * (1 if one * other >= 0 else -1),
            "rem": lambda: abs(one) % max(abs(other), 1) * (1 if one >= 0 else -1),
            "bfe": lambda: (one >> other) & ((1 << others[1]) - 1),
        }
        return made[name]()
