"""Lines of the PTX that LLVM writes: functions, labels, branches, loops, and their registers.

References
----------
PTX ISA, sections "Instruction Statements" and "Control Flow Instructions".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, wraps
from itertools import chain
from typing import NamedTuple, Protocol

from kerneldsl.contract import Report, ignore_remark
from kerneldsl.utilities.cached_property import cached_property

__all__ = [
    "LABEL",
    "MATRIX_SHARED",
    "REGISTER",
    "VOLATILE",
    "Branch",
    "Loop",
    "branch_of",
    "count_anew",
    "count_registers",
    "count_writes",
    "declare",
    "has_loops",
    "innermost_loops",
    "is_for_debuggers",
    "last_loops_first",
    "matrix_shared_bytes",
    "on_functions",
    "opposite",
    "read_header",
    "registers_of",
    "results_of",
    "reveal_copies",
    "shared_bytes",
    "split_blocks",
    "swapped",
    "uses_of",
]


# Passes read the same lines one after the other: what a line is is found once.
LABEL = re.compile(r"^(\$\w+):")
REGISTER = re.compile(r"%\w+")
_BRANCH = re.compile(r"^\s*(?:@(!?)(%\w+) )?bra(?:\.uni)?\s+(\$\w+);")
#: ``activemask`` is the only instruction with one operand that writes it.
_RESULT = re.compile(
    r"^\s*(?:@!?%\w+ )?(?:activemask|[a-z][\w.:]*(?=[^;]*,))[\w.:]*\s+"
    r"(?:\{([^}]*)\}|(%\w+(?:\|%\w+)?))\s*[,;]"
)
#: Characters that contain the header of a module.
_HEAD = 400
_STORE = re.compile(r"\s*(?:@!?%\w+ )?(?:st|red)\b")
#: Special registers that differ from one reading to the next (PTX ISA, "Special Registers").
VOLATILE = re.compile(r"%(?:clock|globaltimer|pm)")
_SWAPPED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}
_OPPOSITE = {"eq": "ne", "lt": "ge", "gt": "le", "lo": "hs", "hi": "ls"}
#: Opposites of float comparisons: exactly one of two opposites is true, also for a NaN operand.
_OPPOSITE_OF_FLOATS = {
    **{"eq": "neu", "ne": "equ", "lt": "geu", "le": "gtu", "gt": "leu", "ge": "ltu"},
    "num": "nan",
}


class Branch(NamedTuple):
    """A branch: taken if a predicate is true, or with `is_negated` false."""

    is_negated: bool
    #: Empty if it is always taken.
    predicate: str
    label: str


class Rewrite(Protocol):
    """Writes a module otherwise, and reports what it did."""

    def __call__(self, ptx: str, report: Report = ignore_remark) -> str: ...


def on_functions(
    needed: str = "",
) -> Callable[[Callable[[list[str], Report], list[str]]], Rewrite]:
    """Return a decorator that makes a rewrite of modules of one of the lines of a function.

    Registers are those of one function, which ends with a brace in the first column. A module
    without the `needed` text stays as it is.
    """

    def decorate(write: Callable[[list[str], Report], list[str]]) -> Rewrite:
        @wraps(write)
        def rewrite(ptx: str, report: Report = ignore_remark) -> str:
            lines = ptx.split("\n") if needed in ptx else []
            written: list[str] = []
            while lines:
                length = lines.index("}") + 1 if "}" in lines else len(lines)
                written += write(lines[:length], report)
                del lines[:length]
            return "\n".join(written) if written else ptx

        return rewrite

    return decorate


def declare(lines: list[str], registers: Iterable[str]) -> list[str]:
    """Return a function with declarations of further registers, such as ``.b64 %left``."""
    opening = next((n for n, line in enumerate(lines) if line.strip() == "{"), 0) + 1
    return [*lines[:opening], *(f"\t.reg {each};" for each in registers), *lines[opening:]]


@lru_cache(maxsize=1 << 14)
def branch_of(line: str) -> Branch | None:
    """Return the branch of a line, if it is one."""
    found = _BRANCH.match(line)
    return Branch(bool(found[1]), found[2] or "", found[3]) if found else None


def opposite(relation: str, kind: str) -> str:
    """Return the comparison that is true where another one is false; `kind` is its type.

    Examples
    --------
    >>> opposite("ge", "s32"), opposite("le", "f32"), opposite("gtu", "f32")
    ('lt', 'gtu', 'le')
    """
    pairs = _OPPOSITE_OF_FLOATS if kind.startswith("f") else _OPPOSITE
    return pairs.get(relation) or next(one for one, other in pairs.items() if other == relation)


def swapped(relation: str) -> str:
    """Return the comparison that is true of two numbers with a sign in the other order.

    Examples
    --------
    >>> swapped("lt"), swapped("eq")
    ('gt', 'eq')
    """
    return _SWAPPED.get(relation, relation)


@lru_cache(maxsize=1 << 14)
def results_of(line: str) -> tuple[str, ...]:
    """Return the registers that an instruction writes.

    Examples
    --------
    >>> results_of("shfl.sync.up.b32 %r1|%p1, %r2, 1, 0, -1;"), results_of("activemask.b32 %r3;")
    (('%r1', '%p1'), ('%r3',))
    >>> results_of("nanosleep.u32 %r1;"), results_of("st.global.b32 [%rd1], %r1;")
    ((), ())
    """
    found = _RESULT.match(line)
    if found is None or _STORE.match(line):
        return ()
    return tuple(re.findall(r"%\w+", found[1] or found[2]))


@lru_cache(maxsize=1 << 14)
def registers_of(line: str) -> tuple[str, ...]:
    """Return the registers in a line, each as often as it occurs."""
    return tuple(REGISTER.findall(line))


def count_registers(lines: Iterable[str]) -> Counter[str]:
    """Return how often each register occurs in lines."""
    return Counter(chain.from_iterable(map(registers_of, lines)))


def count_writes(lines: Iterable[str]) -> Counter[str]:
    """Return how many instructions write each register."""
    return Counter(chain.from_iterable(map(results_of, lines)))


def split_blocks(lines: Iterable[str]) -> Iterator[list[str]]:
    """Yield the parts of a function that end with a branch or a label, and what remains."""
    block: list[str] = []
    for line in lines:
        block.append(line)
        if branch_of(line) or LABEL.match(line):
            yield block
            block = []
    yield block


def uses_of(register: str, lines: Iterable[str]) -> int:
    """Return how often a register occurs in lines."""
    return len(re.findall(rf"{register}\b", "\n".join(lines)))


# Innermost loops in the PTX that LLVM writes.


def has_loops(lines: list[str]) -> bool:
    """Return whether there is a branch to a line before it."""
    seen: set[str] = set()
    for line in lines:
        if found := LABEL.match(line):
            seen.add(found[1])
        elif "bra" in line and (branch := branch_of(line)) and branch.label in seen:
            return True
    return False


def innermost_loops(lines: list[str], most_lines: int) -> Iterator[tuple[int, int]]:
    """Yield first and last lines of loops that are entered at their label, and contain none.

    The last line is the last branch back to the label. A loop with more than `most_lines` is not
    among them.
    """
    places = {found[1]: n for n, line in enumerate(lines) if (found := LABEL.match(line))}
    branches = [(n, each.label) for n, line in enumerate(lines) if (each := branch_of(line))]
    loops = {places[label]: place for place, label in branches if places.get(label, place) < place}
    for first, last in loops.items():
        inside = range(first, last + 1)
        is_innermost = not any(other in inside and other != first for other in loops)
        is_entered_once = not any(
            places.get(label) in inside[1:] and place not in inside for place, label in branches
        )
        if is_innermost and is_entered_once and len(inside) <= most_lines:
            yield first, last


class Loop:
    """A loop of a function: what is before its label, the lines after that, and what follows."""

    def __init__(self, lines: list[str], first: int, last: int) -> None:
        self.lines = lines
        self.before, self.after = lines[:first], lines[last + 1 :]
        self.body = lines[first + 1 : last + 1]
        found = LABEL.match(lines[first])
        assert found is not None
        self.label = found[1]
        #: Labels of the loop and of its body.
        self.labels = {each[1] for line in lines[first:last] if (each := LABEL.match(line))}

    @cached_property
    def writes(self) -> Counter[str]:
        """The number of instructions of the body that write each register."""
        return count_writes(self.body)

    def entered_at(self, label: str, lines: Iterable[str]) -> list[str]:
        """Return the function with other lines after a label, by which it enters them."""
        entry = re.compile(rf"(?<!\w){re.escape(self.label)};")

        def redirected(around: list[str]) -> Iterator[str]:
            for line in around:
                yield entry.sub(f"{label};", line) if branch_of(line) else line

        return [*redirected(self.before), f"{label}:", *lines, *redirected(self.after)]


def last_loops_first(lines: list[str], most_lines: int) -> Iterator[tuple[int, Loop]]:
    """Yield innermost loops and their numbers; `lines` may change meanwhile from a loop on."""
    for number, place in reversed(list(enumerate(innermost_loops(lines, most_lines)))):
        yield number, Loop(lines, *place)


# References: PTX ISA, section "PTX Module Directives".
_HEADER = re.compile(r"^\s*\.version\s+(\d+)\.(\d+)\s+\.target\s+(\w+)", re.MULTILINE)
#: LLVM counts calls, and Numba functions, since the process began.
_CALL = re.compile(r"(// callseq |\bprototype_)(\d+)")
_VERSION = re.compile(r"(B)(\d+v\d+)(?=B)")
#: An array of known size in shared memory: its alignment, bits of an element and extent.
_SHARED = re.compile(r"\.shared\s+\.align\s+(\d+)\s+\.b(\d+)\s+[\w$]+(?:\[(\d+)\])?;")


#: The dynamic shared memory of products, with its size in bytes after it.
MATRIX_SHARED = "kd_matrix_shared_"
_MATRIX_SHARED = re.compile(rf"\.shared\s+\.align\s+\d+\s+\.b8\s+{MATRIX_SHARED}(\d+)\[\]")

#: A copy that LLVM could not look into.
_HIDDEN_COPY = re.compile(
    r"\t// begin inline asm\n\s*mov\.b64 (%rd\d+, (?:%rd\d+|0));\n\t// end inline asm\n"
)


def shared_bytes(ptx: str) -> int:
    """Return how many bytes of static shared memory PTX declares.

    Examples
    --------
    >>> shared_bytes(".shared .align 16 .b8 a[20]; .shared .align 16 .b8 b[4];")
    36
    """
    total = 0
    for align, bits, extent in _SHARED.findall(ptx):
        total = -(-total // int(align)) * int(align) + int(bits) // 8 * int(extent or 1)
    return total


def matrix_shared_bytes(ptx: str) -> int:
    """Return how many bytes of dynamic shared memory a kernel needs for the factors of products.

    Examples
    --------
    >>> matrix_shared_bytes(".extern .shared .align 1024 .b8 kd_matrix_shared_66560[];")
    66560
    """
    found = _MATRIX_SHARED.search(ptx)
    return int(found[1]) if found is not None else 0


def read_header(ptx: str) -> tuple[tuple[int, int], str] | None:
    """Return a module's version of PTX and its target; ``None`` if they are missing.

    Examples
    --------
    >>> read_header(".version 8.4\\n.target sm_90a\\n")
    ((8, 4), 'sm_90a')
    """
    found = _HEADER.search(ptx)
    return ((int(found[1]), int(found[2])), found[3]) if found is not None else None


def count_anew(text: str) -> str:
    """Count calls and functions from 0, so that a kernel's PTX and LLVM IR are always the same."""
    if "callseq" in text or "prototype_" in text:
        text = _renumber(_CALL, text)
    return _renumber(_VERSION, text)


def is_for_debuggers(ptx: str) -> bool:
    """Return whether PTX describes variables, so that assemblers do not optimize it.

    Examples
    --------
    >>> is_for_debuggers(".version 7.8\\n.target sm_90, debug\\n")
    True
    """
    return ", debug\n" in ptx[:_HEAD]


def reveal_copies(ptx: str) -> str:
    """Return PTX with copies that were inline assembly as instructions, which passes understand.

    Examples
    --------
    >>> hidden = "\\t// begin inline asm\\n\\tmov.b64 %rd1, %rd2;\\n\\t// end inline asm\\n"
    >>> reveal_copies(hidden)
    '\\tmov.b64 \\t%rd1, %rd2;\\n'
    """
    return _HIDDEN_COPY.sub(r"\tmov.b64 \t\1;\n", ptx)


def _renumber(counter: re.Pattern[str], text: str) -> str:
    numbers: dict[str, str] = {}
    return counter.sub(
        lambda found: found[1] + numbers.setdefault(found[2], str(len(numbers))), text
    )
