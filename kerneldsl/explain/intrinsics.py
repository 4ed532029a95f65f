"""Evaluate intrinsics and assignments for many threads at once."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import numpy as np

from kerneldsl.analysis.expressions import assigned_names
from kerneldsl.explain.evaluate import Evaluator
from kerneldsl.explain.requests import WARP_LANES
from kerneldsl.explain.subscripts import view_as, view_of
from kerneldsl.explain.values import UNKNOWN, Space, Value, View, as_dtype, binary, choose, possible
from kerneldsl.frontend.unit import IntrinsicUse
from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.language.intrinsics.intrinsic import Effect, Scope, Typing
from kerneldsl.language.intrinsics.tiles import INTERNAL
from kerneldsl.language.kinds import ScalarKind

__all__ = ["Assigner", "IntrinsicEvaluator"]

#: What threads do together, by memory and their own exchanges.
_GROUPS = ("tile.", "block.", "warp.", "chain.")


class IntrinsicEvaluator(Evaluator):
    """Expressions with the intrinsics in them."""

    def intrinsic(self, node: ast.Call, use: IntrinsicUse) -> Value:
        """Return what an intrinsic gives; what it does is counted."""
        name, effect = use.intrinsic.name, use.intrinsic.effect
        if use.intrinsic.typing in (Typing.INDEX, Typing.INDEX_TUPLE):
            return self._coordinate(name, use)
        if effect & (Effect.ALLOCATE_SHARED | Effect.ALLOCATE_LOCAL):
            return self._array(node, use)
        if name == "const.array_like":
            value = self.value(node.args[0])
            if isinstance(value, np.ndarray):
                return self.constant_array(node, f"constant {ast.unparse(node)}", value)
            return value
        if Effect.ATOMIC in effect:
            return self._atomic(node, name)
        if name in ("tile.load", "tile.store") and self._tile(node, name, use):
            return UNKNOWN
        is_element = use.intrinsic in INTERNAL  # of a tile that its threads have
        is_declared = use.intrinsic.typing is Typing.LINKED_ARRAY  # the Python body has accesses
        is_array = effect & (Effect.READ | Effect.WRITE) and not is_declared
        if (name.startswith(_GROUPS) and not is_element) or is_array:
            self.tallies.left_out.add(name)
        arguments = [self.value(each) for each in node.args]
        if use.intrinsic.synchronizes(Scope.BLOCK):
            self.tallies.barriers += self.weight * self.active.warps
        return self._computed(node, name, use, arguments)

    def _tile(self, node: ast.Call, name: str, use: IntrinsicUse) -> bool:
        """Count the accesses of a tile; return whether its array is a plain one."""
        is_store = name == "tile.store"
        array, *others = (self.value(each) for each in node.args)
        at = others[:-1] if is_store else others[1:]
        if not isinstance(array, View) or len(at) != len(array.shape):
            return False
        self.tallies.barriers += self.weight * self.active.warps
        self.tile_access(node, array, at, use.static["shape"], is_store=is_store)
        return True

    def _computed(
        self, node: ast.Call, name: str, use: IntrinsicUse, arguments: list[Value]
    ) -> Value:
        result = self.typed.type_of(node)
        is_float = isinstance(result, ScalarKind) and result.element.is_float
        if name in ("uniform", "load", "store"):  # the normal form has the access itself
            return arguments[0]
        if name == "selp":
            holds, is_data = possible(arguments[0])
            return UNKNOWN if is_data else choose(holds, arguments[1], arguments[2])
        if name == "view" and isinstance(arguments[0], View):
            return view_as(arguments[0], ELEMENT_TYPES[str(use.static["dtype"])].nbytes)
        if is_float and name in ("fma", "rsqrt", "cbrt") and isinstance(result, ScalarKind):
            self.count(node, result, name)
        if name == "fma" and not any(each is UNKNOWN for each in arguments):
            a, b, c = arguments
            return binary(ast.Add(), binary(ast.Mult(), a, b), c)
        return UNKNOWN

    def _coordinate(self, name: str, use: IntrinsicUse) -> Value:
        threads = self.threads
        base, _, axis = name.partition(".")
        place = "xyz".find(axis) if axis else 0
        match base:
            case "threadIdx":
                return threads.thread_index[place]
            case "blockIdx":
                return threads.block_index[place]
            case "blockDim":
                return threads.block_dim[place]
            case "gridDim":
                return threads.grid_dim[place]
            case "laneid":
                return np.arange(threads.lane_count) % WARP_LANES
            case "warpsize":
                return WARP_LANES
        ndim = int(use.static.get("ndim", 1))
        found: tuple[Any, ...]
        if base == "gridsize":
            found = tuple(threads.block_dim[k] * threads.grid_dim[k] for k in range(ndim))
        elif self.indices is not None:
            found = self.indices[:ndim]
        else:
            found = tuple(threads.global_index(k) for k in range(ndim))
        return found[0] if ndim == 1 else found

    def _array(self, node: ast.Call, use: IntrinsicUse) -> Value:
        is_shared = Effect.ALLOCATE_SHARED in use.intrinsic.effect
        dtype, shape = str(use.static["dtype"]), tuple(use.static["shape"])
        if shape == (0,):
            shape = (max(1, self.shared_bytes // ELEMENT_TYPES[dtype].nbytes),)
        space = Space.SHARED if is_shared else Space.LOCAL
        name = node.func.id if isinstance(node.func, ast.Name) else ast.unparse(node.func)
        return view_of(self.made(name, space, node, dtype, shape))

    def _atomic(self, node: ast.Call, name: str) -> Value:
        base, index, *others = node.args
        found = self.element(base, index)
        for each in others:
            self.value(each)
        if isinstance(found, View):
            self.access(node, found, is_store=name != "atomic.load", is_atomic=True)
        return UNKNOWN


class Assigner(IntrinsicEvaluator):
    """Assignments of one function, which hold for the lanes that are `active`."""

    def merged(self, old: Value, new: Value) -> Value:
        """Return the new value for the lanes at work, the old one for others."""
        if old is None or self.active.mask.all():
            return new
        if isinstance(old, View) or isinstance(new, View):
            return new
        mask = self.active.mask | ~self.threads.exists
        return new if mask.all() else choose(mask, new, old)

    def assign(self, target: ast.expr, value: Value) -> None:
        """Give a variable or an element a value."""
        match target:
            case ast.Name(id=name):
                value = as_dtype(value, self.typed.type_of(target))
                self.names[name] = self.merged(self.names.get(name), value)
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                for number, each in enumerate(targets):
                    is_known = isinstance(value, tuple) and len(value) == len(targets)
                    self.assign(each, value[number] if is_known else UNKNOWN)
            case ast.Subscript():
                found = self.element(target.value, target.slice)
                if isinstance(found, View) and not found.shape:
                    self.access(target, found, is_store=True)
            case ast.Attribute(value=ast.Subscript() as base):
                self.assign(base, value)

    def augment(self, node: ast.AugAssign) -> None:
        """Assign in place, as in ``x += y``."""
        value = self.value(node.value)
        target = node.target
        if isinstance(target, ast.Subscript):
            found = self.element(target.value, target.slice)
            if isinstance(found, View) and not found.shape:
                self.access(target, found)
                self.operation(node, node.op, UNKNOWN, value)
                self.access(target, found, is_store=True)
        elif isinstance(target, ast.Name):
            old = self.names.get(target.id, UNKNOWN)
            self.assign(target, self.operation(node, node.op, old, value))

    def forget(self, body: Sequence[ast.stmt]) -> None:
        """Forget the variables that statements assign."""
        for statement in body:
            for name in assigned_names(statement):
                self.names[name] = UNKNOWN
