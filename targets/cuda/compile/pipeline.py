"""The optimizing passes of CUDA code, by name and in their order.

A kernel is rewritten in stages (:class:`Stage`). The first is its region IR. Others are its tiles,
its parameters, the LLVM IR that is linked with it, and the PTX that LLVM writes. If that calls
linked functions, it is the last stage with their PTX. Results are the same without any pass.
Rewrites that keep results right are not in the table, such as
:mod:`targets.cuda.compile.ptxas_workarounds`.

To find the cause of a wrong result or of a slow kernel, passes are disabled by their names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from kerneldsl.contract import CompileOptions, PassRemark, Promises, Report
from kerneldsl.errors import SourceLocation
from kerneldsl.lowering.quotients import simplify_divisions
from kerneldsl.utilities.formatting import format_count
from targets.cuda.compile.addresses.facts import ParameterFacts
from targets.cuda.compile.addresses.shorten import shorten_addresses
from targets.cuda.compile.choices import branch_choices, move_exchanges
from targets.cuda.compile.coalesce_copies import coalesce_copies
from targets.cuda.compile.divisions import divide_late, load_early
from targets.cuda.compile.inline_linked import inline_linked
from targets.cuda.compile.loop_counters import count_turns_down, shorten_counters
from targets.cuda.compile.merge_branches import merge_exits, merge_guards
from targets.cuda.compile.narrow_maxima import narrow_maxima
from targets.cuda.compile.pack_halves import pack_halves
from targets.cuda.compile.peepholes import (
    multiply_by_bits,
    order_indices,
    step_through_chains,
    unroll_remainders,
    widen_products,
)
from targets.cuda.compile.recompute_late import recompute_late
from targets.cuda.compile.square_roots import guard_roots
from targets.cuda.compile.step_pointers import step_pointers

if TYPE_CHECKING:  # they import Numba, which the list of passes does not need
    from kerneldsl.ir.operations import Function
    from kerneldsl.ir.typing import Typing

__all__ = [
    "MULTIPLY_BY_WARPGROUPS",
    "OVERLAP_PRODUCTS",
    "PASSES",
    "Known",
    "Pass",
    "Pipeline",
    "Stage",
    "pipeline_of",
]


# A thread tests whether its index is in the extent. A kernel usually tests it again: ``if i <
# x.size``. ptxas computes the smaller of the two lengths for that, in three instructions, and waits
# for both. Of equal lengths one is enough.
def share_extents(arrays: frozenset[int], promises: Promises, report: Report) -> frozenset[int]:
    """Add the numbers of the arrays with first axes that are as long as the extent."""
    found = {number for number, each in enumerate(promises.arrays) if each.is_extent}
    report("array", "given the lengths of the extent", len(found))
    return arrays | found


Code = TypeVar("Code")


class Stage(Enum):
    """A form of a kernel's code.

    A rewrite is called with the code, what is known of it, and the `Report` of its pass. It returns
    the code. Passes without a rewrite are in :mod:`targets.cuda.compile.mma.passes`.
    """

    #: A `Function` and its `Known`. The function is changed in place.
    REGION = "region IR"
    #: The numbers of arrays with the lengths of the extent, and the `Promises` of a launch.
    PARAMETERS = "parameters"
    #: See `split_roles`.
    ROLES = "roles of threads"
    #: See `lay_out_products`.
    PRODUCTS = "tile products"
    #: See `plan_early_loads`.
    FACTORS = "factors of products"
    #: The definitions of functions that a kernel calls, and how often it calls each.
    LLVM = "LLVM IR"
    #: The text of a module that LLVM has optimized; nothing else is known.
    OPTIMIZED = "optimized LLVM IR"
    #: The text of a module, and the `ParameterFacts` of its entry.
    PTX = "PTX"
    #: The text of a module that calls linked functions, and their definitions by their names.
    LINKED = "linked PTX"


class Known(NamedTuple):
    """Known facts of a kernel's region IR."""

    #: Signatures of operators.
    typing: Typing
    has_tiles: bool


class Pass(NamedTuple):
    """An optimizing pass.

    Parameters
    ----------
    name : str
        Its name.
    purpose : str
        What it does, a sentence.
    stage : Stage
        The code that it rewrites.
    rewrite : function, optional
        Returns the rewritten code. `Stage` describes its arguments.
    """

    name: str
    purpose: str
    stage: Stage
    rewrite: Callable[..., Any] | None = None


class Pipeline:
    """The passes that run on a kernel.

    - `disabled`: names of passes that do not run, because the user disabled them.
    - `without`: names of others that do not run, and why.
    """

    def __init__(
        self, disabled: Collection[str] = (), without: Mapping[str, str] | None = None
    ) -> None:
        self._disabled, self._without = disabled, without or {}
        #: Counts and places by pass, noun, action, and whether it was not done.
        self._counts: dict[tuple[str, str, str, bool], int] = {}
        self._where: dict[tuple[str, str, str, bool], dict[SourceLocation, None]] = {}
        self._left_out: set[str] = set()

    def run(self, stage: Stage, code: Code, *known: Any) -> Code:
        """Return code after the rewrites of a stage, with what is `known` of it."""
        for each in PASSES:
            if each.stage is stage and each.rewrite and (report := self.begin(each.name)):
                code = each.rewrite(code, *known, report)
        return code

    def begin(self, name: str) -> Report | None:
        """Return what records the remarks of a pass that runs now; ``None`` if it does not run."""
        if name in self._disabled:
            self._left_out.add(name)
        elif name in self._without:
            self._add(name, "kernel", f"unchanged: {self._without[name]}", is_missed=True)
        else:
            return partial(self._add, name)
        return None

    def remarks(self) -> tuple[PassRemark, ...]:
        """Return what the passes did, in their order."""
        found = [PassRemark(name, 0, "disabled", is_missed=True) for name in self._left_out]
        for key, count in self._counts.items():
            name, noun, done, is_missed = key
            plural = noun + ("es" if noun.endswith("s") else "s")
            text = f"{format_count(count, noun, plural)} {done}"
            found.append(PassRemark(name, count, text, tuple(self._where[key]), is_missed))
        order = [each.name for each in PASSES]
        return tuple(sorted(found, key=lambda each: (order.index(each.name), each.is_missed)))

    def _add(
        self,
        name: str,
        noun: str,
        done: str,
        count: int = 1,
        *,
        where: Iterable[SourceLocation] = (),
        is_missed: bool = False,
    ) -> None:
        if count:
            key = name, noun, done, is_missed
            self._counts[key] = self._counts.get(key, 0) + count
            self._where.setdefault(key, {}).update(dict.fromkeys(where))


def pipeline_of(options: CompileOptions, without: Mapping[str, str] | None = None) -> Pipeline:
    """Return the passes for options: none where nothing is optimized."""
    every = tuple(each.name for each in PASSES)
    return Pipeline(options.disabled_passes if options.optimize else every, without)


def _unroll_strides(function: Function, known: Known, report: Report) -> Function:
    from targets.cuda.compile.regions.unroll_strides import unroll_strides

    if not known.has_tiles:
        unroll_strides(function, known.typing, report)
    return function


def _narrow_variables(function: Function, known: Known, report: Report) -> Function:
    from targets.cuda.compile.regions.narrow_arithmetic import narrow_variables

    narrow_variables(function, report)
    return function


def _region_pass(name: str) -> Callable[[Function, Known, Report], Function]:
    """Return the pass of a function in `unroll_loops`, which is imported when the pass runs."""

    def rewrite(function: Function, known: Known, report: Report) -> Function:
        from targets.cuda.compile.regions import unroll_loops

        getattr(unroll_loops, name)(function, report)
        return function

    return rewrite


def _ptx_pass(
    rewrite: Callable[[str, Report], str],
) -> Callable[[str, ParameterFacts, Report], str]:
    """Return the pass of a function that needs no facts."""
    return lambda ptx, facts, report: rewrite(ptx, report)


#: The passes that compile_kernel leaves out, the last one first, if ptxas makes their code slow.
MULTIPLY_BY_WARPGROUPS = "multiply-by-warpgroups"
OVERLAP_PRODUCTS = "overlap-products"
#: Passes in the order in which they run.
PASSES = (
    Pass(
        "unroll-strides",
        "Unroll loops with a stride, as of a grid, by four, so that loads come before their uses.",
        Stage.REGION,
        _unroll_strides,
    ),
    Pass(
        "unroll-array-loops",
        "Unroll loops of known length that index a local array, so that it is in registers.",
        Stage.REGION,
        _region_pass("unroll_loops"),
    ),
    Pass(
        "unroll-divisors",
        "Unroll loops that divide by what they multiply, so that their divisors are numbers.",
        Stage.REGION,
        _region_pass("unroll_divisors"),
    ),
    Pass(
        "unroll-short-loops",
        "Unroll loops of at most sixteen iterations in full if they have few operations.",
        Stage.REGION,
        _region_pass("unroll_short_loops"),
    ),
    Pass(
        "unroll-arithmetic",
        "Unroll loops of twelve operations or more by four, if they access no array or take roots.",
        Stage.REGION,
        _region_pass("unroll_arithmetic"),
    ),
    Pass(
        "narrow-variables",
        "Keep integers that are multiplied or divided in loops in 32 bits if they fit.",
        Stage.REGION,
        _narrow_variables,
    ),
    Pass(
        "share-extents",
        "Take lengths of arrays from the extent of `forall` if they are equal to it.",
        Stage.PARAMETERS,
        share_extents,
    ),
    Pass(
        MULTIPLY_BY_WARPGROUPS,
        "Multiply tiles by warpgroups of sm_90a, for which another thread copies tiles early.",
        Stage.ROLES,
    ),
    Pass(
        OVERLAP_PRODUCTS,
        "Run the second product of an iteration beside the first one of the next iteration.",
        Stage.ROLES,
    ),
    Pass(
        "multiply-by-warps",
        "Multiply tiles by matrix instructions of a warp, with sums in its registers.",
        Stage.PRODUCTS,
    ),
    Pass(
        "load-factors-early",
        "Load tiles that are multiplied in a pipelined loop some iterations early.",
        Stage.FACTORS,
    ),
    Pass(
        "simplify-divisions",
        "Divide nonnegative integers without signs, and by constants in 32 bits if they fit.",
        Stage.LLVM,
        simplify_divisions,
    ),
    Pass(
        "guard-roots",
        "Compute a square root only where the kernel does, after the test that it depends on.",
        Stage.LLVM,
        guard_roots,
    ),
    Pass(
        "pack-halves",
        "Compute pairs of 16-bit numbers of bits of two words in the halves of one word.",
        Stage.OPTIMIZED,
        pack_halves,
    ),
    Pass(
        "coalesce-copies",
        "Compute the next value of a variable in its register, instead of copying it there.",
        Stage.PTX,
        _ptx_pass(coalesce_copies),
    ),
    Pass(
        "merge-exits",
        "Test at the end of an iteration whether the next one ends the loop at its start.",
        Stage.PTX,
        _ptx_pass(merge_exits),
    ),
    Pass(
        "merge-guards",
        "Test guards that only arithmetic is between by one branch.",
        Stage.PTX,
        _ptx_pass(merge_guards),
    ),
    Pass(
        "unroll-remainders",
        "Let ptxas unroll loops over what remains of loops that LLVM unrolled by eight.",
        Stage.PTX,
        _ptx_pass(unroll_remainders),
    ),
    Pass(
        "count-loops-down",
        "Count the iterations of innermost loops down to 0, so that ptxas unrolls them.",
        Stage.PTX,
        _ptx_pass(count_turns_down),
    ),
    Pass(
        "narrow-counters",
        "Count in 32 bits in loops with several exits if the number of iterations fits.",
        Stage.PTX,
        _ptx_pass(shorten_counters),
    ),
    Pass(
        "multiply-by-bits",
        "Compute a choice between a constant and 0 by a bit as a product.",
        Stage.PTX,
        _ptx_pass(multiply_by_bits),
    ),
    Pass(
        "widen-products",
        "Multiply integers of 16 bits in 32, so that no signs are extended.",
        Stage.PTX,
        _ptx_pass(widen_products),
    ),
    Pass(
        "chain-affine-steps",
        "Compute each number of a linear congruential generator from the one before it.",
        Stage.PTX,
        _ptx_pass(step_through_chains),
    ),
    Pass(
        "narrow-maxima",
        "Compute maxima of sums with int32 in 32 bits, if a number in them is not negative.",
        Stage.PTX,
        _ptx_pass(narrow_maxima),
    ),
    Pass(
        "narrow-addresses",
        "Compute addresses, and integers that fit, in 32 bits, and addresses from neighbours.",
        Stage.PTX,
        shorten_addresses,
    ),
    Pass(
        "step-pointers",
        "Step each address of a loop by itself, not one that others are computed from.",
        Stage.PTX,
        _ptx_pass(step_pointers),
    ),
    Pass(
        "recompute-late",
        "Compute again after a loop what parameters decide, so that the loop has more registers.",
        Stage.PTX,
        _ptx_pass(recompute_late),
    ),
    Pass(
        "divide-late",
        "Divide and take square roots right before their uses, and other arithmetic before them.",
        Stage.PTX,
        _ptx_pass(divide_late),
    ),
    Pass(
        "load-early",
        "Load before divisions and square roots what does not depend on them.",
        Stage.PTX,
        _ptx_pass(load_early),
    ),
    Pass(
        "branch-choices",
        "Compute one of two float64 numbers only in the threads that choose it.",
        Stage.PTX,
        _ptx_pass(branch_choices),
    ),
    Pass(
        "order-indices",
        "Read how many threads a block has before its number, so that less latency is waited for.",
        Stage.PTX,
        _ptx_pass(order_indices),
    ),
    Pass(
        "move-exchanges",
        "Exchange values by a choice and a move, which are on different pipes.",
        Stage.PTX,
        _ptx_pass(move_exchanges),
    ),
    Pass(
        "inline-linked",
        "Write linked functions of PTX in the place of their calls.",
        Stage.LINKED,
        inline_linked,
    ),
)
