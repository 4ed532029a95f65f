"""Numba's lowering of a function to LLVM, with less to write for each variable and statement.

Numba's variables may count references: each stack slot is filled with zeros where the function
begins, what it held is read before each store, and a pair of an iterator goes through a slot of its
own for each part. A variable that another block reads has a slot, too, although most are assigned
once, before each of their uses. LLVM takes all that away again, in a time that grows with the slots
times the blocks. Nothing that a kernel computes with counts references.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import Any

from llvmlite import ir as llvm_ir
from numba.core import ir
from numba.core.analysis import compute_cfg_from_blocks
from numba.core.compiler_machinery import register_pass
from numba.core.debuginfo import suspend_emission
from numba.core.errors import LoweringError
from numba.core.lowering import BaseLower, Lower, new_error_context
from numba.core.typed_passes import NativeLowering
from numba.core.unsafe import eh

from kerneldsl.lowering.numba_internals.moved import overriding

__all__ = ["LowerToLLVM"]


@overriding()
class _SlotLower(Lower):
    """Lowers a function; one with generators or variables for a debugger as Numba does."""

    def init(self) -> None:
        """Look through the function once, for what Numba looks through it several times."""
        self._is_plain = not (
            self.context.enable_nrt
            or self.generator_info is not None
            or self._disable_sroa_like_opt
        )
        super().init()

    def _find_singly_assigned_variable(self) -> None:
        """Find what needs no slot, what needs one with zeros in it, and whether there is a try."""
        if not self._is_plain:
            super()._find_singly_assigned_variable()
            return
        self._catches = False
        places: dict[str, set[int]] = defaultdict(set)
        counts: dict[str, int] = defaultdict(int)
        early: list[tuple[str, int]] = []
        for label, block in self.blocks.items():
            assigned: set[str] = set()
            for statement in block.body:
                target = None
                if isinstance(statement, ir.Assign):
                    target, value = statement.target.name, statement.value
                    places[target].add(label)
                    counts[target] += 1
                    read = _read(value)
                    if isinstance(value, ir.Global) and value.value is eh.exception_check:
                        self._catches = True
                else:
                    read = statement.list_vars()
                early += [(var.name, label) for var in read if var.name not in assigned]
                if target is not None:
                    assigned.add(target)
        once = {name for name, count in counts.items() if count == 1}
        uses: dict[str, set[int]] = defaultdict(set)
        for name, label in early:
            uses[name].add(label)
        come_after = _Order(self.blocks).come_after
        self._singly_assigned_vars = {
            name for name in once if all(map(partial(come_after, *places[name]), uses[name]))
        }
        self._blk_local_varmap: dict[str, Any] = {}
        # Where SSA form was made, each other use comes after an assignment.
        without_value = {name for name, label in early if places.get(name, {label}) == {label}}
        self._filled_first = counts.keys() - without_value

    def pre_block(self, block: Any) -> None:
        """Begin a block."""
        if not self._is_plain or self._catches:
            super().pre_block(block)
        else:
            BaseLower.pre_block(self, block)
            self._cur_ir_block = block

    def lower_block(self, block: Any) -> None:
        """Lower the statements of a block; an error is told with the statement."""
        self.pre_block(block)
        for statement in block.body:
            self.loc = statement.loc
            try:
                self.lower_inst(statement)
            except Exception as error:
                kind = partial(LoweringError, loc=self.loc)
                message = 'lowering "{inst}" at {loc}'
                with new_error_context(message, inst=statement, loc=self.loc, errcls_=kind):
                    raise error
        self.post_block(block)

    def lower_inst(self, inst: Any) -> Any:
        """Lower a statement: what is no assignment as Numba does, which also prints each."""
        if not (self._is_plain and isinstance(inst, ir.Assign)) or isinstance(inst.value, ir.Arg):
            return super().lower_inst(inst)
        self.debuginfo.mark_location(self.builder, self.loc.line)
        self.notify_loc(self.loc)
        name = inst.target.name
        self.storevar(self.lower_assign(self.typeof(name), inst), name)
        return None

    def lower_expr(self, resty: Any, expr: Any) -> Any:
        """Lower an expression; a part of a pair is taken out of its value."""
        if self._is_plain and expr.op in ("pair_first", "pair_second"):
            pair = self.loadvar(expr.value.name)
            if isinstance(pair.type, llvm_ir.LiteralStructType) and len(pair.type.elements) == 2:
                return self.builder.extract_value(pair, int(expr.op == "pair_second"))
        return super().lower_expr(resty, expr)

    def storevar(self, value: Any, name: str, argidx: int | None = None) -> None:
        """Store a value; what was there before is not read."""
        if not self._is_plain or argidx is not None or name in self._singly_assigned_vars:
            super().storevar(value, name, argidx)
            return
        self._alloca_var(name, self.typeof(name))
        self.builder.store(value, self.varmap[name])

    def alloca_lltype(self, name: str, lltype: Any, datamodel: Any = None) -> Any:
        """Make a slot, with zeros in it where a use may come before each assignment."""
        if not self._is_plain or name not in self._filled_first or self.flags.debuginfo:
            return super().alloca_lltype(name, lltype, datamodel)
        with suspend_emission(self.builder), self.builder.goto_entry_block():
            return self.builder.alloca(lltype, name=name)


class _Order:
    """Blocks in the order in which they are lowered, and which of them run before others."""

    def __init__(self, blocks: dict[int, Any]) -> None:
        dominators = compute_cfg_from_blocks(blocks).immediate_dominators()
        inner: dict[int, list[int]] = defaultdict(list)
        for label, outer in dominators.items():
            if label != outer:
                inner[outer].append(label)
        #: When a walk over the tree of dominators enters and leaves each block.
        self._enters: dict[int, int] = {}
        self._leaves: dict[int, int] = {}
        roots = [label for label, outer in dominators.items() if label == outer]
        pending = [(label, False) for label in roots]
        while pending:
            label, is_left = pending.pop()
            if is_left:
                self._leaves[label] = len(self._enters)
                continue
            self._enters[label] = len(self._enters)
            pending.append((label, True))
            pending += [(each, False) for each in inner[label]]

    def come_after(self, first: int, second: int) -> bool:
        """Return whether the code of a block is written, and always runs, after another one's."""
        if first >= second or first not in self._enters:  # or where nothing leads to
            return False
        return self._enters[first] < self._enters.get(second, -1) < self._leaves[first]


def _read(value: Any) -> list[Any]:
    """Return the variables that an assigned value is made of."""
    if isinstance(value, ir.Var):
        return [value]
    return list(value.list_vars()) if isinstance(value, ir.Inst) else []


@register_pass(mutates_CFG=True, analysis_only=False)
class LowerToLLVM(NativeLowering):
    """Numba IR to LLVM, by the class above."""

    _name = "kerneldsl_lower_to_llvm"

    @property
    def lowering_class(self) -> Any:
        """Return it."""
        return _SlotLower
