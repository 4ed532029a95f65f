"""Rules by which the value of an expression is uniform.

There is a rule for each form of expression, each attribute and each kind of call. A value without a
rule is not proved uniform. For all others, threads get the same result from an operation if they
read the same operands, and the same elements of arrays.
"""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable

import numpy as np

from kerneldsl.analysis.divergence import (
    Divergence,
    Environment,
    Fact,
    Form,
    Uniformity,
    Value,
    join,
    join_values,
    level_of,
)
from kerneldsl.analysis.effects import is_internal_call
from kerneldsl.analysis.expressions import assigned_names, operands, text_of
from kerneldsl.analysis.library_effects import (
    EXTENT_ATTRIBUTES,
    READING_METHODS,
    TYPE_ATTRIBUTES,
    VIEW_METHODS,
    gives_scalar,
)
from kerneldsl.analysis.library_names import name_of_function
from kerneldsl.analysis.uniform_memory import Memory
from kerneldsl.frontend.foreign import is_numba_type
from kerneldsl.frontend.unit import FunctionUnit, IntrinsicUse
from kerneldsl.language.intrinsics.intrinsic import Effect, Intrinsic, Scope, Typing
from kerneldsl.language.reserved import RESERVED_PREFIX

__all__ = ["COUNTING_FUNCTIONS", "ExpressionRules"]

_VIEW_ATTRIBUTES = frozenset({"T", "flat", "imag", "real"})

_EXTENT_FUNCTIONS = frozenset({"len", "numpy.shape", "numpy.size"})
#: Functions with items that depend only on their arguments.
COUNTING_FUNCTIONS = frozenset({"numba.misc.special.prange", "numpy.ndindex", "range", "slice"})
#: Functions that return the items of their arguments.
_ITERATING_FUNCTIONS = frozenset({"enumerate", "numpy.ndenumerate", "numpy.nditer", "zip"})
#: Functions that return the first argument in another shape, given by the others.
_VIEW_FUNCTIONS = frozenset(
    f"numpy.{name}"
    for name in (
        "asarray",
        "ascontiguousarray",
        "asfortranarray",
        "expand_dims",
        "ravel",
        "reshape",
        "squeeze",
        "swapaxes",
        "transpose",
    )
)
#: Libraries with functions that compute a value only from their arguments.
_COMPUTING_LIBRARIES = ("builtins", "cmath", "math", "numpy")


class ExpressionRules(ABC):
    """Evaluates expressions of one function.

    `array_names` are variables of a declared array, if a target has replaced its declaration.
    `scope` selects the threads for which values are compared.
    """

    def __init__(
        self, unit: FunctionUnit, memory: Memory, array_names: Collection[str], scope: Scope
    ) -> None:
        self.unit = unit
        self.memory = memory
        self.array_names = array_names
        self.scope = scope
        #: How the way varies by which threads reach what is evaluated now.
        self.control: Fact = None
        #: How the way varied by which threads have returned so far.
        self.left: Fact = None
        #: Level of each expression node, at its worst over every way to it.
        self.levels: dict[ast.AST, Uniformity] = {}
        #: Barriers in places that are not uniform.
        self.barriers: dict[ast.AST, Divergence] = {}
        #: What helps with those of operations that a block does as one.
        self.remedies: dict[ast.AST, str] = {}
        self.assigned = assigned_names(unit.tree)

    @abstractmethod
    def store(
        self, target: ast.expr, source: ast.expr, value: Value, env: Environment, *, at: ast.AST
    ) -> None:
        """Assign a value, which `source` computes, to a target in the statement `at`."""

    @abstractmethod
    def called(self, callee: FunctionUnit, node: ast.Call, arguments: list[Value]) -> Value:
        """Return what a device function returns."""

    def value(self, node: ast.expr, env: Environment, behind: Fact = None) -> Value:
        """Return what is known of an expression's value.

        `behind` says how the operands before it vary, on which it depends whether it is evaluated.
        """
        control = self.control
        self.control = join(control, behind)
        value = self._value(node, env)
        self.control = control
        self.levels[node] = max(self.levels.get(node, Uniformity.UNIFORM), level_of(value.worst))
        return value

    def condition(self, test: ast.expr, env: Environment) -> Fact:
        """Return how the truth of an expression varies."""
        return self.truth(self.value(test, env), test)

    def truth(self, value: Value, test: ast.expr) -> Fact:
        """Return how the truth of a value varies that an expression gives."""
        fact = self.contents(value, test, test)
        if fact is None:
            return None
        verb = "varies" if fact.level is Uniformity.VARYING else "is not known to be uniform"
        return self.because(fact, f"the condition `{self.text(test)}` {verb}", test)

    def contents(self, value: Value, node: ast.expr, at: ast.AST) -> Fact:
        """Return how a value varies with whatever may be read through it.

        `node` gives the value, and `at` is the expression or statement that reads.
        """
        if value.form is Form.NUMBERS:
            return value.fact
        if value.worst is not None and value.form is not Form.ARRAY:
            return value.worst
        return self.read(value.worst, self.memory.accesses.views(node), node, at)

    def read(self, place: Fact, roots: frozenset[int | str], node: ast.expr, at: ast.AST) -> Fact:
        """Return how what is read at a place in memory varies."""
        if not roots:
            return place
        if place is not None:
            what = f"`{self.text(node)}` is loaded from a varying index"
            return Divergence(Uniformity.UNPROVEN, what, self.unit.locate(node), place)
        doubt = self.memory.doubt(roots, at)
        if doubt is None:
            return None
        what = f"`{self.text(node)}` is loaded from {doubt}"
        return Divergence(Uniformity.UNPROVEN, what, self.unit.locate(node))

    # -- forms --------------------------------------------------------------------------------

    def _value(self, node: ast.expr, env: Environment) -> Value:
        match node:
            case ast.Constant():
                return Value(form=Form.NUMBERS)
            case ast.Name():
                return env[node.id] if node.id in env else self.outside(node)
            case ast.Tuple() | ast.List():
                values = [self.value(element, env) for element in node.elts]
                together = join_values(*values)
                is_plain = together.form is Form.NUMBERS
                form = Form.NUMBERS if is_plain or not values else Form.OTHER
                return Value(together.fact, together.extent, form)
            case ast.Slice():
                fact = self.contents_of(operands(node), node, env)
                return Value(fact, fact)
            case ast.Subscript():
                return self.subscript(node, env)
            case ast.Attribute():
                return self.attribute(node, env)
            case ast.Call():
                return self.call(node, env)
            case ast.BinOp() | ast.UnaryOp():
                return self.operation(node, env)
            case ast.Compare():
                return self.comparison(node, env)
            case ast.BoolOp():
                return self.choice_of_operands(node, env)
            case ast.IfExp():
                test = self.condition(node.test, env)
                one = self.value(node.body, env, test)
                two = self.value(node.orelse, env, test)
                return join_values(one, two).chosen_by(test)
            case ast.NamedExpr():
                value = self.value(node.value, env)
                self.store(node.target, node.value, value, env, at=node)
                return value
        fact = self.contents_of(operands(node), node, env)
        return self.unknown(node, fact, f"nothing is known of `{self.text(node)}`")

    def outside(self, node: ast.Name) -> Value:
        """Evaluate a name that no statement before has given a value."""
        name = node.id
        if name in self.unit.constants:
            constant = self.unit.constants[name].value
            return Value(form=Form.ARRAY if isinstance(constant, np.ndarray) else Form.OTHER)
        if name in self.array_names:
            return Value(form=Form.ARRAY)
        if name in self.unit.callees:
            return Value(form=Form.NUMBERS)  # a function that an intrinsic is given
        if name in self.unit.namespace or name in self.assigned:
            return Value()  # a library's; or a variable of which nothing leads here
        if name.startswith(RESERVED_PREFIX):
            return Value(form=Form.NUMBERS)  # a target's own word, such as a block's index
        return self.unknown(node, None, f"nothing is known of `{name}`")

    def unknown(self, node: ast.expr, cause: Fact, what: str) -> Value:
        """Return a value without a rule."""
        level = max(level_of(cause), Uniformity.UNPROVEN)
        fact = Divergence(level, what, self.unit.locate(node), cause)
        return Value(fact, fact)

    def contents_of(self, parts: Iterable[ast.expr], at: ast.expr, env: Environment) -> Fact:
        """Return how operands vary, with whatever may be read through them."""
        values = [(self.value(part, env), part) for part in parts]
        return join(*(self.contents(value, part, at) for value, part in values))

    def operation(self, node: ast.BinOp | ast.UnaryOp, env: Environment) -> Value:
        values = [(self.value(part, env), part) for part in operands(node)]
        fact = join(*(self.contents(value, part, node) for value, part in values))
        if any(value.form is Form.OTHER for value, _ in values):  # tuples can be added
            return Value(fact, join(*(value.extent for value, _ in values)))
        return Value(fact, form=Form.NUMBERS)

    def comparison(self, node: ast.Compare, env: Environment) -> Value:
        # Operands after the second are evaluated only by the threads that reach them.
        values = [(self.value(node.left, env), node.left)]
        fact: Fact = None
        for comparator in node.comparators:
            values.append((self.value(comparator, env, fact), comparator))
            fact = join(*(self.contents(value, part, node) for value, part in values))
        return Value(fact, form=Form.NUMBERS)

    def choice_of_operands(self, node: ast.BoolOp, env: Environment) -> Value:
        # Operands after a varying one are evaluated only by some threads.
        values: list[Value] = []
        fact: Fact = None
        for operand in node.values:
            values.append(self.value(operand, env, fact))
            fact = join(fact, self.truth(values[-1], operand))
        return join_values(*values).chosen_by(fact)

    def subscript(self, node: ast.Subscript, env: Environment) -> Value:
        base = self.value(node.value, env)
        index = self.value(node.slice, env)
        place = join(base.fact, index.fact)
        if base.form is Form.NUMBERS:
            return Value(place, form=Form.NUMBERS)
        extent = join(base.extent, index.extent, None if base.form is Form.ARRAY else index.fact)
        if isinstance(node.ctx, ast.Load) and not _is_view(node.slice):
            # An element: of a tuple, a shape or a constant, which have no memory, or of an array.
            place = self.read(place, self.memory.accesses.roots(node.value), node, node)
        return Value(place, extent, base.form)

    def attribute(self, node: ast.Attribute, env: Environment) -> Value:
        owner = self.value(node.value, env)
        if node.attr in TYPE_ATTRIBUTES:
            return Value(form=Form.NUMBERS)
        if node.attr in EXTENT_ATTRIBUTES:
            return Value(owner.extent, form=Form.NUMBERS)
        if node.attr in _VIEW_ATTRIBUTES:
            return owner
        fact = self.contents(owner, node.value, node)
        return Value(fact, fact)

    # -- calls --------------------------------------------------------------------------------

    def call(self, node: ast.Call, env: Environment) -> Value:
        parts = [*node.args, *(keyword.value for keyword in node.keywords)]
        values = [self.value(part, env) for part in parts]
        use = self.unit.use_of(node)
        if use is not None:
            return self.intrinsic(use, node, values)
        callee = self.unit.callee_of(node)
        if callee is not None:
            return self.called(callee, node, values)
        if is_internal_call(node, self.unit) and parts and self._is_array(parts[0]):
            return Value(form=Form.ARRAY)  # a thread's own part of what is kept for all of them
        if isinstance(node.func, ast.Attribute) and self.memory.accesses.function_of(node) is None:
            return self.method(node.func, node, values, env)
        return self.function(node, values)

    def _is_array(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id in self.array_names

    def intrinsic(self, use: IntrinsicUse, node: ast.Call, values: list[Value]) -> Value:
        intrinsic, control = use.intrinsic, self.control
        if self.scope is Scope.GRID:  # a block that has returned is waited for, too
            control = join(control, self.left)
        if control is not None and intrinsic.synchronizes(self.scope):
            known = self.barriers.get(node)
            if known is None or known.level < control.level:
                self.barriers[node] = control
                if intrinsic.is_of_block and control.level is Uniformity.VARYING:
                    what = f"{_of_block(intrinsic)} is not reached by every thread: {control.text}"
                    self.barriers[node] = self.because(control, what, node)
                    self.remedies[node] = _OUT_OF_CONDITION
        if intrinsic.is_of_block and self.scope is Scope.BLOCK:
            self.check_of_block(intrinsic, node, values)
        if intrinsic.effect & (Effect.ALLOCATE_SHARED | Effect.ALLOCATE_LOCAL):
            return Value(form=Form.ARRAY)  # every thread has its own local array, under one name
        form = values[0].form if intrinsic.is_view else Form.NUMBERS
        if intrinsic.is_view and form is Form.ARRAY and intrinsic.uniform_in is None:
            return values[0]
        if intrinsic.uniform_in is None:
            return Value(self._contents_of_all(node, values), form=form)
        if intrinsic.uniform_in >= self.scope:
            # Lanes of one warp that name different masks have different results.
            has_mask = intrinsic.scope is Scope.WARP and intrinsic.parameters[:1] == ("mask",)
            return Value(values[0].worst if has_mask else None, form=form)
        group = intrinsic.uniform_in.name.lower()
        if intrinsic.is_index:
            level, meaning = Uniformity.VARYING, f"is the {group}'s own index"
        else:
            level, meaning = Uniformity.UNPROVEN, f"gives each {group} a value of its own"
        what = f"`{self.text(node)}` {meaning}"
        return Value(Divergence(level, what, self.unit.locate(node)), form=form)

    def check_of_block(self, intrinsic: Intrinsic, node: ast.Call, values: list[Value]) -> None:
        """Note what surely is given what varies though it is done as one, or what some have left.

        Both are reported as a divergent barrier: threads would work on different tiles, or parts.
        """
        if node in self.barriers:
            return
        name = _of_block(intrinsic)
        if level_of(self.left) is Uniformity.VARYING:
            assert self.left is not None
            what = f"threads have returned before {name}: {self.left.text}"
            self.barriers[node] = self.because(self.left, what, node)
            self.remedies[node] = _STAY
            return
        for position, value in enumerate(values):
            fact = value.worst
            if fact is not None and fact.level is Uniformity.VARYING:
                argument = _argument(intrinsic, position, len(values))
                if argument is not None:
                    name = f"kd.{intrinsic.name}, for {argument},"
                what = f"{name} needs the same in every thread of the block: {fact.text}"
                self.barriers[node] = self.because(fact, what, node)
                self.remedies[node] = _GIVE_THE_SAME
                return

    def method(
        self,
        method: ast.Attribute,
        node: ast.Call,
        values: list[Value],
        env: Environment,
    ) -> Value:
        owner = self.value(method.value, env)
        arguments = self._contents_of_all(node, values)
        if method.attr in VIEW_METHODS:
            extent = join(owner.extent, arguments)
            return Value(join(owner.fact, arguments), extent, owner.form)
        fact = join(self.contents(owner, method.value, node), arguments)
        if method.attr in READING_METHODS:
            return Value(fact, form=Form.NUMBERS)
        return Value(fact, fact)

    def function(self, node: ast.Call, values: list[Value]) -> Value:
        """Evaluate a call of a builtin, of a library's function, or of one that is not known."""
        function = self.memory.accesses.function_of(node)
        name = name_of_function(function)
        facts = join(*(value.fact for value in values))
        extents = join(*(value.extent for value in values))
        if name in _EXTENT_FUNCTIONS:
            return Value(extents, form=Form.NUMBERS)
        if name in _ITERATING_FUNCTIONS:
            return Value(facts, extents)
        if name in _VIEW_FUNCTIONS:
            return Value(facts, join(extents, *(v.fact for v in values[1:])), values[0].form)
        fact = self._contents_of_all(node, values)
        if is_internal_call(node, self.unit):
            return Value(fact, extents, values[0].form)
        if name in COUNTING_FUNCTIONS:
            return Value(fact, fact)
        if not self.is_known(node):
            what = f"`{self.text(node)}` calls a function that cannot be analyzed"
            return self.unknown(node, fact, what)
        if gives_scalar(function, node):
            return Value(fact, form=Form.NUMBERS)
        return Value(fact, fact)

    def is_known(self, node: ast.Call) -> bool:
        """Return whether the result of a call depends only on its arguments."""
        if self.unit.callee_of(node) is not None:
            return True
        function = self.memory.accesses.function_of(node)
        if function is None:  # a method of a value that is checked anyway
            return isinstance(node.func, ast.Attribute)
        if isinstance(function, type) and issubclass(function, np.generic):
            return True
        if name_of_function(function) in COUNTING_FUNCTIONS:
            return True
        # A ufunc has no attribute for its module.
        module: str = getattr(function, "__module__", None) or type(function).__module__
        return is_numba_type(function) or module.partition(".")[0] in _COMPUTING_LIBRARIES

    def _contents_of_all(self, node: ast.Call, values: list[Value]) -> Fact:
        parts = [*node.args, *(keyword.value for keyword in node.keywords)]
        pairs = zip(values, parts, strict=True)
        return join(*(self.contents(value, part, node) for value, part in pairs))

    # -- words --------------------------------------------------------------------------------

    def because(self, fact: Divergence, what: str, node: ast.AST) -> Divergence:
        """Return a fact as the next link of its chain."""
        return Divergence(fact.level, what, self.unit.locate(node), fact)

    def text(self, node: ast.AST) -> str:
        """Return an expression as the user wrote it."""
        return text_of(node, self.unit.locate(node).line)

    def shown(self, name: str) -> str:
        """Name a variable as the user called it."""
        return self.unit.spellings.get(name, name)


#: What helps where a block is to do as one what single threads do, miss or differ in.
_OUT_OF_CONDITION = "Move the operation out of the condition, and guard only the work around it"
_STAY = (
    "Let every thread reach it: put what some threads leave out under a condition, in place of "
    "returning. What a tile has beyond the edge of an array is neither read nor written"
)
_GIVE_THE_SAME = (
    "Give what all threads of a block agree on, such as an argument or kd.blockIdx; of numbers "
    "that differ, kd.tile.of(…) makes a tile"
)


def _of_block(intrinsic: Intrinsic) -> str:
    """Name an operation that a block does as one; of a tile it may be an operator."""
    return "a tile operation" if intrinsic.typing is Typing.TILE else repr(intrinsic)


def _argument(intrinsic: Intrinsic, position: int, count: int) -> str | None:
    """Return the user's name of an argument of a separated load or store of a tile."""
    if intrinsic.name == "tile.load":  # then come the indices
        return ("array", "other", "at")[min(position, 2)]
    if intrinsic.name == "tile.store":
        return "array" if position == 0 else "at" if position < count - 1 else "tile"
    return None


def _is_view(index: ast.expr) -> bool:
    """Return whether an index has a slice or ``...`` in it, so that it surely gives a view."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return any(
        isinstance(part, ast.Slice) or (isinstance(part, ast.Constant) and part.value is ...)
        for part in parts
    )
