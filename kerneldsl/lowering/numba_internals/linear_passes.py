"""Steps of Numba's passes in time proportional to the size of a function.

Numba rewrites the whole function once for each variable that is assigned more than once, and
carries each temporary of a block to the end of the function. A kernel whose threads run in many
loops has hundreds of such variables and thousands of temporaries. What is computed here is the
same.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import (
    analysis,
    base,
    byteflow,
    compiler_machinery,
    interpreter,
    ir,
    postproc,
    ssa,
    transforms,
    typeinfer,
)
from numba.core.errors import CompilerError
from numba.core.types.functions import BaseFunction

from kerneldsl.lowering.numba_internals.settled_types import propagate

__all__ = ["linear_passes"]


def run_ssa(blocks: dict[int, Any]) -> dict[int, Any]:
    """Return blocks in minimal SSA form: Numba's ``_run_ssa``, which visits all each time."""
    cfg = analysis.compute_cfg_from_blocks(blocks)
    frontiers = ssa._iterated_domfronts(cfg)
    blocks = dict(blocks)
    places = _places(blocks)
    variables = ssa._CacheListVars()
    scope = ssa._get_scope(blocks)
    for name in ssa._find_defs_violators(blocks, cfg):
        labels = places[name]
        definitions: dict[int, list[Any]] = defaultdict(list)
        states = {"scope": scope, "varname": name, "defmap": definitions}
        _rewrite(blocks, labels, states, ssa._FreshVarHandler())
        phis: dict[int, list[Any]] = defaultdict(list)
        states |= {
            "phimap": phis,
            "cfg": cfg,
            "phi_locations": ssa._compute_phi_locations(frontiers, definitions),
        }
        _rewrite(blocks, labels, states, ssa._FixSSAVars(variables))
        for label, added in phis.items():
            if added:
                blocks[label] = _with_body(blocks[label], added + blocks[label].body)
    if analysis.compute_cfg_from_blocks(blocks) != cfg:
        raise CompilerError("CFG mutated in SSA pass")
    return blocks


def _places(blocks: dict[int, Any]) -> dict[str, list[int]]:
    """Return the labels of the blocks that name each variable, in the order of the blocks."""
    places: dict[str, list[int]] = defaultdict(list)
    for label, block in blocks.items():
        for name in {var.name: None for stmt in block.body for var in stmt.list_vars()}:
            places[name].append(label)
    return places


def _rewrite(
    blocks: dict[int, Any], labels: list[int], states: dict[str, Any], handler: Any
) -> None:
    """Let a handler of Numba's rewrite the statements of some blocks."""
    for label in labels:
        block = blocks[label]
        states["label"], states["block"] = label, block
        blocks[label] = _with_body(block, list(ssa._run_ssa_block_pass(states, block, handler)))


def _with_body(block: Any, body: list[Any]) -> Any:
    new = ir.Block(scope=block.scope, loc=block.loc)
    new.body = body
    return new


def compute_live_map(
    cfg: Any, blocks: dict[int, Any], uses: dict[int, set[str]], definitions: dict[int, set[str]]
) -> Any:
    """Return what is live where a block begins: Numba's function, of fewer variables.

    What no block needs from another one is live where no block begins.
    """
    crossing = set().union(*uses.values())
    fewer = {label: names & crossing for label, names in definitions.items()}
    return _compute_live_map(cfg, blocks, uses, fewer)


_compute_live_map, _run = analysis.compute_live_map, postproc.PostProcessor.run


def begins_block(flow: Any, state: Any) -> bool:
    """Return whether a block begins here: ``Flow._is_implicit_new_block``, with a set."""
    labels = flow.__dict__.get("_kerneldsl_labels")
    if labels is None:
        labels = flow._kerneldsl_labels = frozenset(flow._bytecode.labels)
    instruction = state.get_inst()
    return instruction.offset in labels or instruction.opname in byteflow.NEW_BLOCKERS


#: How instructions begin that make what Numba's peephole passes look for: calls with ``*``, lists
#: and dictionaries that grow, ``with``.
_FOR_PEEPHOLES = (
    *("LIST_", "DICT_", "MAP_", "SET_", "BUILD_LIST", "BUILD_MAP", "BUILD_CONST_KEY_MAP"),
    *("CALL_FUNCTION_EX", "CALL_INTRINSIC", "SETUP_", "BEFORE_WITH", "POP_BLOCK"),
    *("LOAD_SPECIAL", "WITH_"),
)


def post_process(reader: Any, peepholes: list[Any], function: Any) -> Any:
    """Run Numba's peephole passes, each of which reads the whole function, where one has work."""
    names = {instruction.opname for instruction in reader.bytecode.table.values()}
    if not any(name.startswith(_FOR_PEEPHOLES) for name in names):
        return function
    return _post_process(reader, peepholes, function)


def list_variables(self: Any, value: Any) -> list[Any]:
    """Return the variables in a part of a statement: ``Inst._rec_list_vars``."""
    kind = type(value)
    if kind is ir.Var:
        return [value]
    if kind in _WITHOUT_VARIABLES:
        return []
    if isinstance(value, ir.Var):
        return [value]
    if isinstance(value, ir.Inst):
        found: list[Any] = value.list_vars()
        return found
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list | tuple):
        _WITHOUT_VARIABLES.add(kind)
        return []
    return [var for part in value for var in list_variables(self, part)]


#: Types whose values hold no variables, as far as was seen.
_WITHOUT_VARIABLES: set[type] = set()
_post_process = interpreter.Interpreter.post_process


def prune_phis(flow: Any, runner: Any) -> None:
    """Leave the phis of the stack that a block uses, with the values that reach them.

    Numba's ``Flow._prune_phis`` looks through all phis until nothing changes. Each loop keeps its
    iterator on the stack, so a phi has as many others before it as there are blocks in the loop.
    """
    del flow
    phis = {phi for state in runner.finished for phi in state._phis}
    given: dict[str, list[tuple[str, Any]]] = defaultdict(list)
    passed_on: dict[str, list[str]] = defaultdict(list)
    for state in runner.finished:
        for phi, value in state._outgoing_phis.items():
            if value in phis:
                passed_on[value].append(phi)
            else:
                given[phi].append((value, state))
    reaching: dict[str, set[tuple[str, Any]]] = defaultdict(set)
    for phi, values in given.items():
        for each in values:
            pending = [phi]
            while pending:
                at = pending.pop()
                if each not in reaching[at]:
                    reaching[at].add(each)
                    pending += passed_on[at]
    used = {phi for state in runner.finished for phi in state._phis if phi in state._used_regs}
    kept: dict[Any, dict[str, str]] = defaultdict(dict)
    for phi in used:
        for value, state in reaching[phi]:
            kept[state][phi] = value
    for state in runner.finished:
        state._outgoing_phis.clear()
        state._outgoing_phis.update(kept[state])


def finish_pass(processor: Any, emit_dels: bool = False, extend_lifetimes: bool = False) -> None:
    """Do what each pass of Numba's ends with: ``PostProcessor.run``, without what no kernel needs.

    The variables that live where a block begins are for object mode and for generators.
    """
    function = processor.func_ir
    if function.is_generator:
        _run(processor, emit_dels, extend_lifetimes)
        return
    function.blocks = transforms.canonicalize_cfg(function.blocks)
    function.variable_lifetime = postproc.VariableLifetime(function.blocks)
    function.generator_info = None
    if emit_dels:
        processor._insert_var_dels(extend_lifetimes=extend_lifetimes)


def remembering() -> Callable[..., Any]:
    """Return Numba's ``get_call_type``, which resolves a call of equal types once.

    A kernel has thousands of calls of few kinds, and Numba reads all registries for each of an
    intrinsic's.
    """
    known: dict[Any, Any] = {}

    def get_call_type(function: Any, context: Any, args: Any, kws: Any) -> Any:
        key = function, context, args, tuple(kws.items())
        found = known.get(key)
        if found is None:
            found = known[key] = _get_call_type(function, context, args, kws)
        return found

    return get_call_type


_get_call_type = BaseFunction.get_call_type


def unify(inference: Any, raise_errors: bool = True) -> Any:
    """Return the types that were found: ``TypeInferer.unify``, which then lets go of all else.

    A function in it refers to itself and to the inference, which would wait for the garbage
    collector with everything that it has found.
    """
    found = _unify(inference, raise_errors=raise_errors)
    inference.__dict__.clear()
    return found


_unify = typeinfer.TypeInferer.unify


def _trust(function: Any) -> None:
    """Do not look after each pass whether it has put in what no pass puts in."""


@contextmanager
def linear_passes() -> Iterator[None]:
    """Have Numba's passes call these functions. The caller holds Numba's compiler lock."""
    replaced: tuple[tuple[Any, str, Any], ...] = (
        (ssa, "_run_ssa", run_ssa),
        (analysis, "compute_live_map", compute_live_map),
        (byteflow.Flow, "_is_implicit_new_block", begins_block),
        (byteflow.Flow, "_prune_phis", prune_phis),
        (interpreter.Interpreter, "post_process", post_process),
        (ir.Inst, "_rec_list_vars", list_variables),
        (postproc.PostProcessor, "run", finish_pass),
        (BaseFunction, "get_call_type", remembering()),
        (typeinfer.ConstraintNetwork, "propagate", propagate),
        (typeinfer.TypeInferer, "unify", unify),
        (base, "_has_loc", functools.cache(base._has_loc)),
        (compiler_machinery, "enforce_no_dels", _trust),
    )
    before = [getattr(owner, name) for owner, name, _ in replaced]
    for owner, name, function in replaced:
        setattr(owner, name, function)
    try:
        yield
    finally:
        for (owner, name, _), function in zip(replaced, before, strict=True):
            setattr(owner, name, function)
