"""From a specialization to the Python function that runs a range of its blocks.

This is the CPU target's pipeline. It inlines functions, drops or records exceptions, marks indices,
isolates barriers and replaces ids. Then it splits at barriers, interchanges loops, places storage
and writes Python. The result is an ordinary function of numbers and arrays that Numba compiles. It
can be printed and read.
"""

from __future__ import annotations

import ast
import types
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from kerneldsl.analysis.analyze import tuple_parameters
from kerneldsl.analysis.expressions import names_read
from kerneldsl.analysis.hoisting import place_at
from kerneldsl.analysis.uniformity import UniformityResult, analyze_uniformity
from kerneldsl.contract import Specialization
from kerneldsl.frontend.fresh_names import FreshNames
from kerneldsl.frontend.syntax import assign, call, load
from kerneldsl.frontend.trees import copy_tree
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.intrinsics.intrinsic import Scope
from kerneldsl.lowering.build import build_function
from kerneldsl.lowering.faults import FaultSite, FaultTable
from kerneldsl.utilities.dataclasses import dataclass
from targets.cpu.codegen.block_arrays import BlockArrays
from targets.cpu.codegen.emit import BlockEmitter, ElementEmitter
from targets.cpu.codegen.functions import Binder
from targets.cpu.codegen.orientation import RowAxis, row_axis
from targets.cpu.codegen.phases import AT_SLOT, STATE_BYTES, resumable, write_grid_loops
from targets.cpu.codegen.slots import ProbeWriter, SlotPlacer, slot_statements, stored_widths
from targets.cpu.codegen.storage import DYNAMIC, SCRATCH, STACK_BYTES, Storage
from targets.cpu.codegen.units import threads_of_call, units_loop
from targets.cpu.passes.array_variables import array_variables
from targets.cpu.passes.block_variables import BlockVariables
from targets.cpu.passes.dead_branches import flat_function
from targets.cpu.passes.dynamic_slices import check_dynamic_slices
from targets.cpu.passes.exchanges import isolate_barriers
from targets.cpu.passes.faster_functions import (
    NO_REQUIREMENTS,
    VariantRequirements,
    faster_functions,
)
from targets.cpu.passes.gathered_atomics import GatheredAtomics
from targets.cpu.passes.ids import BlockSpace, ElementSpace, Space, WarpSpace, replace_ids
from targets.cpu.passes.interchange import STRIP, Interchange
from targets.cpu.passes.items import Item, has_rows, statements_of
from targets.cpu.passes.liveness import Liveness, Slot, Variables, liveness_of
from targets.cpu.passes.magnitudes import small_integers
from targets.cpu.passes.masked_strips import MaskedStrips
from targets.cpu.passes.merging import Merging
from targets.cpu.passes.nonnegative_starts import version_loops_on_nonnegative_start
from targets.cpu.passes.pending import exchanges_often
from targets.cpu.passes.prepare import FAULT, prepare_tree
from targets.cpu.passes.rematerialization import Rematerializable
from targets.cpu.passes.row_loads import load_once_for_rows
from targets.cpu.passes.single_threads import SingleThreads
from targets.cpu.passes.spread_arrays import SPREAD_START, all_interchanged
from targets.cpu.passes.strides import Strides, name_loaded_bounds
from targets.cpu.passes.structure import Structure
from targets.cpu.passes.warp_loops import mask_divergent_loops
from targets.cpu.passes.warps import divide_by_warps, runs_by_warps

__all__ = ["Generated", "generate"]

#: Leading int64 parameters of a body: the range of its units of work, then the space.
_RANGE = ("kd_first", "kd_last")
_ELEMENT_SPACE = ("kd_segment", "kd_nx", "kd_ny", "kd_nz", "kd_unused_0", "kd_unused_1")
_BLOCK_SPACE = ("kd_gx", "kd_gy", "kd_gz", "kd_extent_0", "kd_extent_1", "kd_extent_2")
#: The scratch memory of all blocks, with a part for each.
_PARTS = "kd_parts"
_MAKE_STATE = "kd_make_state"


@dataclass(frozen=True)
class Generated:
    """The function that Numba compiles for one specialization."""

    #: ``f(first, last, six words of the space, scratch, dynamic bytes, *arguments[, fault])``.
    function: types.FunctionType
    #: The same as text.
    source: str
    #: Where its units of work are row segments, what they run along; of blocks ``None``.
    rows_along: RowAxis | None
    #: Scratch memory one call needs, without the dynamic shared memory that follows it.
    scratch_bytes: int
    #: Whether it needs any.
    uses_scratch: bool
    #: Whether it uses dynamic shared memory.
    uses_dynamic: bool
    #: Whether blocks wait for each other. Each then has its own scratch memory during the whole
    #: launch, and a call runs it up to the next barrier of the grid.
    waits: bool
    #: Sites of faults in debug mode.
    fault_table: FaultTable | None
    #: Whether Numba infers the types of slots while it compiles the function. If that fails, the
    #: function must be written again, with types that are inferred before.
    has_open_slots: bool = False


def generate(
    spec: Specialization,
    infer: Callable[[types.FunctionType, int], dict[str, Any]],
    *,
    keeps_arrays: bool = False,
    opens_slots: bool = False,
) -> Generated:
    """Write the function for one specialization.

    There is a block, unless the kernel uses only ``grid``. `infer` returns Numba's types of the
    variables of a function; it also needs the number of int64 parameters before scratch memory and
    the kernel's parameters.

    Device functions are inlined if their loops can then run for many threads at once. The elements
    of small local arrays become variables, unless all local arrays are kept. `opens_slots` leaves
    the types of slots open (:mod:`targets.cpu.codegen.slots`); then `infer` is not called.
    """
    flat = flat_function(spec.unit)
    if not spec.options.debug:
        for unit, how in faster_functions(spec, flat, keeps_arrays=keeps_arrays):
            generated = _Generator(spec, infer, unit, opens_slots).run(how)
            if generated is not None:
                return generated
    generated = _Generator(spec, infer, flat, opens_slots).run()
    assert generated is not None
    return generated


class _Generator:
    def __init__(
        self,
        spec: Specialization,
        infer: Callable[[types.FunctionType, int], dict[str, Any]],
        unit: FunctionUnit,
        opens_slots: bool,
    ) -> None:
        self.spec = spec
        self.infer = infer
        self.unit = unit
        self.names = FreshNames.for_unit(self.unit)
        self.waits = spec.traits.syncs_grid
        # What a block keeps while it waits is no part of the stack, where open slots are.
        self.opens_slots = opens_slots and not self.waits
        self.storage = Storage(most_stack_bytes=0 if self.waits else STACK_BYTES)
        self.namespace: dict[str, Any] = {}
        self.sites: list[FaultSite] = []
        self.space: Space
        if spec.traits.uses_grid_only:
            self.space = ElementSpace(spec.mode, row_axis(spec))
        else:
            assert spec.block_dim is not None
            kind = WarpSpace if runs_by_warps(self.unit, spec) else BlockSpace
            self.space = kind(spec.block_dim, spec.mode)
        self.binder = Binder(spec, self.unit, self.space, self.sites, self.storage)
        #: Variables that always hold one array of the block's own storage.
        self.private_arrays: frozenset[str] = frozenset()
        self.arrays = BlockArrays(self.unit, self.space, self.names, self.storage, self.namespace)

    def run(self, requirements: VariantRequirements = NO_REQUIREMENTS) -> Generated | None:
        """Write the function, if it meets the requirements; return ``None`` otherwise."""
        prepared = prepare_tree(self.unit, self.spec, self.space, self.sites, self.names)
        tree = isolate_barriers(prepared.tree, self.unit, self.names)
        if self.waits:
            write_grid_loops(tree, self.unit, self.names)
            self.place_state()
        self.arrays.place_declared(tree, requirements.spread)
        if requirements.spread and not self.arrays.spread:
            return None
        rooms = self.arrays.place_rooms(2 if exchanges_often(tree, self.unit) else 1)
        tree = replace_ids(tree, self.unit, self.space)
        space_names = frozenset((*self.space_names(), *self.arrays.placed))
        if not self.spec.options.debug:
            self.find_shared_values(tree, space_names)
        self.unit, uniformity = mask_divergent_loops(
            tree, self.unit, self.names, partial(self.analyze, tree)
        )
        self.arrays.find_holders(tree)
        pure = Rematerializable(tree, self.unit, self.spec.kinds, space_names)
        unit = self.unit
        structure = Structure(unit, tree, uniformity, pure, self.names, rooms)
        items, variables = structure.items, structure.variables
        pure.set_invariant(frozenset(variables.block_names | variables.loop_names), tree)
        reads = Counter(names_read(statements_of(items)))
        lanes = MaskedStrips(unit, uniformity, pure, self.names, reads)
        strides = Strides(
            *(unit, uniformity, pure, self.names, self.space.loop_names[0]),
            *(variables.evaluable, reads),
        )
        interchange = Interchange(
            *(unit, uniformity, pure, self.space.loop_names, variables.evaluable),
            *(self.arrays.of_threads, self.arrays.spread, lanes, strides),
        )
        if not self.spec.options.debug:
            if isinstance(self.space, BlockSpace):
                uses_local_arrays = interchange.uses_local_arrays
                SingleThreads(pure, self.space.loop_names, uses_local_arrays).apply(items)
            interchange.apply(items)
        if requirements.has_rows and not has_rows(items):
            return None
        if not all_interchanged(items, self.arrays.spread):
            return None
        if not interchange.has_contiguous_access(items, requirements.contiguous):
            return None
        known = variables.block_names | variables.loop_names | space_names
        known |= interchange.counters | strides.counters
        private = structure.thread_variables | {structure.left} | lanes.made
        private |= set(pure.assignments) - known - set(pure.definitions)
        liveness = self.merge(items, pure, variables, liveness_of(items, private))
        self.private_arrays = array_variables(tree, self.arrays.placed)
        of_strips = liveness.of_strips(items)
        atomics = GatheredAtomics(unit, self.names, threads_of_call(self.space))
        self.private_arrays |= atomics.place(self.spec, self.storage, self.namespace)
        slots, fetched = self.place_slots(
            items, pure, liveness, prepared.parameters, small_integers(tree, pure)
        )
        inner = self.space.thread_names
        once = pure.independent_of(inner[:1] if isinstance(self.space, ElementSpace) else inner)
        by_lane = frozenset(name for name in slots if self.slot_dims(name, of_strips) == (STRIP,))
        origins = Variables(
            *(pure, liveness, slots, fetched, frozenset(once), by_lane),
            *(self.binder.takes_any_order, self.private_arrays),
        )
        space = self.space
        emitter = (
            ElementEmitter(origins, space)
            if isinstance(space, ElementSpace)
            else BlockEmitter(origins, space)
        )
        made, definitions = slot_statements(slots), [pure.definition(n) for n in once]
        if self.waits:
            blocks = [*made, *definitions, *resumable(items, emitter.items)]
            body = [*self.axes_of_one(), units_loop(self.space, blocks)]
        else:
            blocks = [*definitions, *emitter.items(items)]
            units = units_loop(self.space, blocks)
            body = atomics.around([*made, *self.axes_of_one(), units])
        if not self.spec.options.debug:
            body = version_loops_on_nonnegative_start(
                body, self.unit, self.names, pure.arrays().keys()
            )
        if self.binder.takes_any_order:
            body = load_once_for_rows(body, self.unit, self.names, pure.arrays())
        words = (*_RANGE, *self.space_words())
        function_tree = self.definition(body, words, prepared.parameters, in_parts=self.waits)
        if self.opens_slots:
            from targets.cpu.intrinsics.slots import open_slot_operations

            self.namespace.update(open_slot_operations())
        self.storage.check(self.unit)
        return Generated(
            self.build(function_tree),
            ast.unparse(function_tree),
            self.space.rows_along if isinstance(self.space, ElementSpace) else None,
            self.storage.scratch_bytes,
            self.storage.scratch_bytes > 0 or self.spec.traits.uses_dynamic_shared,
            self.spec.traits.uses_dynamic_shared,
            self.waits,
            FaultTable(tuple(self.sites)) if self.spec.options.debug else None,
            has_open_slots=self.opens_slots and bool(slots),
        )

    def find_shared_values(self, tree: ast.FunctionDef, space_names: frozenset[str]) -> None:
        """Make separate expressions of values that threads share if they run together, in place."""
        pure = Rematerializable(tree, self.unit, self.spec.kinds, space_names)
        if isinstance(self.space, WarpSpace):
            divide_by_warps(tree, pure)
            pure = Rematerializable(tree, self.unit, self.spec.kinds, space_names)
        name_loaded_bounds(tree, self.unit, pure, self.names, self.space.thread_names)

    def merge(
        self,
        items: list[Item],
        pure: Rematerializable,
        variables: BlockVariables,
        liveness: Liveness,
    ) -> Liveness:
        """Merge items between which threads need not wait, in place; return what is live then."""
        if self.spec.options.debug or self.waits or self.space.loop_names != ("kd_tx",):
            return liveness
        shared = {name: rank for name, (_, rank) in self.arrays.shared().items()}
        merging = Merging(
            self.unit, pure, self.names, variables, self.space.threads, shared, liveness
        )
        if not merging.apply(items):
            return liveness
        return liveness_of(items, liveness.private | merging.made)

    def analyze(self, tree: ast.FunctionDef, unit: FunctionUnit) -> UniformityResult:
        """Find the uniform values of a tree with replaced ids."""
        return analyze_uniformity(
            unit.with_tree(tree),
            tuples=tuple_parameters(unit, self.spec.kinds),
            varying_names=self.space.thread_names,
            declared=self.arrays.roots(),
            scope=Scope.WARP if isinstance(self.space, WarpSpace) else Scope.BLOCK,
        )

    # -- names -----------------------------------------------------------------------------------

    def space_words(self) -> tuple[str, ...]:
        return _ELEMENT_SPACE if isinstance(self.space, ElementSpace) else _BLOCK_SPACE

    def space_names(self) -> tuple[str, ...]:
        """Return the coordinates and extents that the kernel's expressions may use."""
        units = self.space.unit_names if isinstance(self.space, BlockSpace) else ()
        start = (SPREAD_START,) if self.arrays.spread else ()
        return (*self.space.thread_names, *units, *self.space_words(), *start)

    # -- storage ---------------------------------------------------------------------------------

    def place_state(self) -> None:
        """Reserve what says where a block goes on, at the beginning of its storage."""
        from numba import types as numba_types

        from targets.cpu.intrinsics.slots import slot_maker

        offset = self.storage.place(STATE_BYTES)
        self.namespace[_MAKE_STATE] = slot_maker(numba_types.int64, (1,), offset)

    def place_slots(
        self,
        items: list[Item],
        pure: Rematerializable,
        liveness: Liveness,
        parameters: tuple[str, ...],
        small: frozenset[str],
    ) -> tuple[dict[str, Slot], dict[Item, dict[str, int]]]:
        """Give each private variable that outlives an item a slot for each type it then has."""
        widths: dict[str, str] = {}
        if not self.spec.options.debug:
            widths = stored_widths(items, liveness, self.arrays.shared() | pure.arrays())
        dims_of = partial(self.slot_dims, of_strips=liveness.of_strips(items))
        placer = SlotPlacer(dims_of, self.names, self.storage, self.namespace, small, widths)
        if self.opens_slots:
            return placer.place_open(items, liveness)
        writer = ProbeWriter(
            Variables(pure, liveness, {}, {}, frozenset(), frozenset(), True, frozenset()),
            self.names,
        )
        rendered, probes = writer.items(items), writer.probes
        if not probes:
            return {}, {}
        words = (*_RANGE, *self.space_names())
        # One trip of a loop, since an item may leave the block with `continue`.
        trip = ast.While(ast.Constant(True), [*rendered, ast.Break()], [])
        starts: list[ast.stmt] = [
            assign(name, call("kd_unknown"))
            for name in sorted({name for probe in probes.values() for name in probe.names})
        ]
        function = self.build(self.definition([*starts, trip], words, parameters))
        return placer.place(probes, self.infer(function, len(words)))

    def slot_dims(self, name: str, of_strips: frozenset[str]) -> tuple[int, ...]:
        """Return what a variable's slot has a value for: each thread of a block, or of a strip."""
        if isinstance(self.space, ElementSpace) or name in of_strips:
            return (STRIP,)
        return self.space.loop_extents

    # -- the function ----------------------------------------------------------------------------

    def axes_of_one(self) -> list[ast.stmt]:
        """Return the coordinates along axes where a block has one thread.

        In debug mode all of them: what runs once for a block can fail too, in its first thread.
        """
        if isinstance(self.space, ElementSpace):
            return []
        idle = list(self.space.thread_names)
        if not self.spec.options.debug:
            idle = [n for n in idle if n not in self.space.loop_names]
        return [assign(n, ast.Constant(0)) for n in idle]

    def definition(
        self,
        body: list[ast.stmt],
        words: tuple[str, ...],
        parameters: tuple[str, ...],
        *,
        in_parts: bool = False,
    ) -> ast.FunctionDef:
        """Return a generated function around its statements, with its outside names bound.

        The statements are copied, because an item may occur in them several times, and in other
        functions. The arrays of the block are made first. With `in_parts`, each block has a part of
        the given memory, and arrays are made for each.
        """
        names = [*words, _PARTS if in_parts else SCRATCH, DYNAMIC, *parameters]
        if self.spec.options.debug:
            names.append(FAULT)
        arguments = ast.arguments([], [ast.arg(n) for n in names], None, [], [], None, [])
        tree = ast.FunctionDef(self.unit.name, arguments, copy_tree(body), [], None, None)
        if "type_params" in ast.FunctionDef._fields:  # from Python 3.12 on
            tree.__dict__["type_params"] = []
        place_at(ast.copy_location(tree, self.unit.tree), self.unit.tree)
        loops = () if in_parts else self.space.loop_names  # there each thread cuts its parts out
        check_dynamic_slices(tree.body, self.arrays.dynamic(), loops)
        self.binder.bind(self.namespace, tree, self.unit, self.private_arrays)
        # Binding has placed the arrays of device functions; dynamic memory begins after them.
        if in_parts:
            (loop,) = (each for each in tree.body if isinstance(each, ast.For))
            loop.body[:0] = self.part_statements()
        else:
            tree.body[:0] = self.arrays.statements()
        return place_at(tree, self.unit.tree)

    def part_statements(self) -> list[ast.stmt]:
        """Return the statements that find the block's part of the memory, and what is in it."""
        from targets.cpu.intrinsics.memory import part_maker

        self.namespace["kd_part"] = part_maker(self.storage.scratch_bytes)
        part = call("kd_part", load(_PARTS), load("kd_block"), load(DYNAMIC))
        state = assign(AT_SLOT, call(_MAKE_STATE, load(SCRATCH)))
        return [assign(SCRATCH, part), state, *self.arrays.statements()]

    def build(self, tree: ast.FunctionDef) -> types.FunctionType:
        """Make a generated function from its tree."""
        return build_function(tree, tree.name, self.namespace, self.unit.filename)
