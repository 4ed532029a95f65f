"""Cut a kernel at its barriers: statements to items.

Statements without a barrier are collected in :class:`~targets.cpu.passes.items.Threads`. An ``if``,
``for`` or ``while`` that contains a barrier becomes an item that runs once for the block. A uniform
assignment runs once. If the control flow of a block depends on values of threads, a separate item
evaluates the condition.

A thread that returns early sets a mark. If its condition can be computed again at any time, there
is no mark: later items have the opposite condition as a guard.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable

from kerneldsl.analysis.expressions import assigned_names, loaded_names
from kerneldsl.analysis.hoisting import place_at
from kerneldsl.analysis.library_names import library_name
from kerneldsl.analysis.returns import contains_return, lower_returns
from kerneldsl.analysis.uniformity import UniformityResult
from kerneldsl.errors import UnsupportedConstructError
from kerneldsl.frontend.fresh_names import FreshNames
from kerneldsl.frontend.syntax import assign, load, store
from kerneldsl.frontend.trees import Transformer, copy_tree, walk_here
from kerneldsl.frontend.unit import FunctionUnit, IntrinsicUse
from targets.cpu.codegen.row_loops import guarded
from targets.cpu.intrinsics.table import Cut, Exchange, Together, lowering_of
from targets.cpu.passes.block_variables import BlockVariables, assigned_value
from targets.cpu.passes.exchanges import ExchangeBuffer, exchange_of, with_value
from targets.cpu.passes.items import Branch, ForLoop, Item, Leave, Once, Threads, Vote, WhileLoop
from targets.cpu.passes.pending import Pending
from targets.cpu.passes.rematerialization import Rematerializable, negate
from targets.cpu.passes.statements import truth_of, without_definitions, writes_memory

__all__ = ["Structure"]


class Structure:
    """Turns one kernel's statements into items.

    Block-level functions of `unit` are inlined. In `tree`, ids are replaced, and barriers are
    separate statements. Threads exchange values in the first of `rooms`, or alternately in two.
    """

    def __init__(
        self,
        unit: FunctionUnit,
        tree: ast.FunctionDef,
        uniformity: UniformityResult,
        pure: Rematerializable,
        names: FreshNames,
        rooms: tuple[ExchangeBuffer, ...] = (),
    ) -> None:
        self.unit = unit
        self.uniformity = uniformity
        self.pure = pure
        self.names = names
        self.rooms = rooms
        #: Whether halves of masked exchanges are in one loop over threads.
        self.shares_loops = len(rooms) > 1
        #: Variables of each thread that were added here, in addition to the user's.
        self.thread_variables: set[str] = set()
        #: The mark of a thread that has returned.
        self.left = names.make("left")
        self.has_marks = False
        #: Variables that say which threads take part in a branch.
        self.masks: set[str] = set()
        self.loop_depth = 0
        self.mask_depth = 0
        self.variables = BlockVariables(unit, tree, uniformity, pure)
        self.items = self.run(tree.body)

    def run(self, body: list[ast.stmt]) -> list[Item]:
        """Return the items of the whole kernel."""
        body = without_definitions(body, self.pure)
        if not any(self.variables.cuts(node, leaves_loop=False) for node in body):
            # One item: whatever is assigned is assigned within the loops over threads.
            self.variables.block_names.clear()
            self.variables.loop_names.clear()
            return [Threads(lower_returns(body, result=None, flag=self.thread_variable("done")))]
        items = self.block(body, (), is_whole=True)
        if self.has_marks:
            items.insert(0, Threads([place_at(assign(self.left, ast.Constant(False)), body[0])]))
        return items

    # -- items -----------------------------------------------------------------------------------

    def thread_variable(self, stem: str) -> str:
        """Return a new variable of each thread."""
        name = self.names.make(stem)
        self.thread_variables.add(name)
        return name

    def threads(
        self, body: list[ast.stmt], guards: tuple[ast.expr, ...], *, is_masked: bool = False
    ) -> Threads:
        """Return an item that threads run, with what is known of its guards here."""
        return Threads(body, guards, is_masked or self.mask_depth > 0)

    def block(
        self,
        body: list[ast.stmt],
        guards: tuple[ast.expr, ...],
        *,
        is_whole: bool = False,
        pending: Pending | None = None,
    ) -> list[Item]:
        """Return the items of a list of statements; `is_whole` says that it is the kernel's own.

        `pending` are statements of before it, to which those of its end are added.
        """
        items: list[Item] = []
        is_inner = pending is not None
        pending = pending or Pending()
        marked: tuple[ast.expr, ...] = guards

        def add(*statements: ast.stmt) -> None:
            pending.add([*statements], marked, is_masked=self.mask_depth > 0)

        for index, node in enumerate(body):
            is_last = index == len(body) - 1
            exchange = exchange_of(node, self.unit)
            if exchange is not None:
                room = self.room_beside(pending, exchange, is_guarded=bool(marked))
                if pending.taken_from is room:
                    items += pending.flush()
                before, posts, after = self.cut_exchange(
                    node, exchange, room, is_guarded=bool(marked)
                )
                items += before
                add(*posts)
                items += pending.flush()
                items += after
                if not self._gives_block_value(node):
                    add(self.take_exchange(node, exchange, room, is_guarded=bool(marked)))
                    pending.taken_from = room
            elif self.variables.cuts(node, leaves_loop=self.loop_depth > 0):
                returns = contains_return(node)  # asked now: cutting rewrites the node
                if self.shares_loops and isinstance(node, ast.If) and self._needs_mask(node):
                    items += self.cut_masked_if(node, marked, pending)
                else:
                    items += pending.flush()
                    items += self.cut(node, marked)
                if returns:
                    items += pending.flush()
                    self.has_marks = True
                    marked = self._with_mark(marked)
                    items.extend(self.leave_if_empty(marked))
            elif contains_return(node):
                if is_last and is_whole:
                    # Nothing comes after: the thread just ends.
                    add(*lower_returns([node], result=None, flag=self.thread_variable("done")))
                    continue
                condition = self._pure_exit(node)
                items += pending.flush()
                if condition is not None and is_whole:
                    marked = (*marked, condition)
                else:
                    self.has_marks = True
                    lowered = lower_returns([node], result=None, flag=self.left, always_flag=True)
                    items.append(self.threads(lowered, marked))
                    marked = self._with_mark(marked)
                if not is_last or self.loop_depth:
                    items.extend(self.leave_if_empty(marked))
            elif self._belongs_to_block(node):
                if not self._can_go_before(node, pending.statements):
                    items += pending.flush()
                items.append(Once(node))
            else:
                add(node)
        return items if is_inner else [*items, *pending.flush()]

    def room_beside(self, pending: Pending, call: ast.Call, *, is_guarded: bool) -> ExchangeBuffer:
        """Return memory for an exchange, other than memory that is still needed.

        Shuffles of all threads are vectorized in separate loops.
        """
        lowering = lowering_of(self._use(call).intrinsic)
        assert isinstance(lowering, Exchange)
        is_alone = lowering.has_window and not is_guarded
        others = [room for room in self.rooms if room != pending.taken_from and not is_alone]
        return others[0] if others else self.rooms[0]

    def cut_exchange(
        self, node: ast.stmt, call: ast.Call, room: ExchangeBuffer, *, is_guarded: bool
    ) -> tuple[list[Item], list[ast.stmt], list[Item]]:
        """Return what the block does before threads post, what they do then, and the block after.

        Whether it is guarded says that not all threads may take part.
        """
        lowering = lowering_of(self._use(call).intrinsic)
        assert isinstance(lowering, Exchange)
        posted = self.names.make("posted") if lowering.combine is not None else None
        is_window = room.is_window(lowering, is_guarded=is_guarded)
        begin = room.begin(is_guarded=is_guarded, posted=posted, is_window=is_window)
        before: list[Item] = [Once(place_at(statement, node)) for statement in begin]
        after: list[Item] = []
        if posted is not None:
            after.append(Once(room.combine(call, posted)))
            if self._gives_block_value(node):
                after.append(Once(with_value(node, room.take_common(call, posted))))
        posts = room.post(call, is_guarded=is_guarded, posted=posted, is_window=is_window)
        return before, posts, after

    def take_exchange(
        self, node: ast.stmt, call: ast.Call, room: ExchangeBuffer, *, is_guarded: bool
    ) -> ast.stmt:
        """Return what each thread does when all have posted."""
        lowering = lowering_of(self._use(call).intrinsic)
        assert isinstance(lowering, Exchange)
        is_window = room.is_window(lowering, is_guarded=is_guarded)
        taken = room.take(call, is_window=is_window, is_vote=lowering.is_vote)
        return with_value(node, taken)

    def _use(self, call: ast.Call) -> IntrinsicUse:
        use = self.unit.use_of(call)
        assert use is not None
        return use

    def _gives_block_value(self, node: ast.stmt) -> bool:
        """Return whether a statement with an exchange gives the block a variable."""
        return (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and node.targets[0].id in self.variables.block_names
        )

    def _with_mark(self, guards: tuple[ast.expr, ...]) -> tuple[ast.expr, ...]:
        if not self.has_marks or any(self.left in loaded_names(g) for g in guards):
            return guards
        return (ast.UnaryOp(ast.Not(), load(self.left)), *guards)

    def _pure_exit(self, node: ast.stmt) -> ast.expr | None:
        """Return the condition of staying, if ``if …: return`` tests a pure expression."""
        if (
            isinstance(node, ast.If)
            and len(node.body) == 1
            and isinstance(node.body[0], ast.Return)
            and not node.orelse
            and self.pure.is_pure(node.test)
        ):
            return negate(copy.deepcopy(node.test), self.pure)
        return None

    def leave_if_empty(self, guards: tuple[ast.expr, ...]) -> list[Item]:
        """Leave the block, or the loop, when no thread is left in it."""
        statement: ast.Break | ast.Continue = ast.Break() if self.loop_depth else ast.Continue()
        active = self.names.make("active")
        test = ast.Compare(load(active), [ast.Eq()], [ast.Constant(0)])
        return [
            Vote(active, "count", ast.Constant(True), guards),
            Branch(test, [Leave(statement)]),
        ]

    def _belongs_to_block(self, node: ast.stmt) -> bool:
        if not isinstance(node, ast.Assign | ast.AugAssign):
            return False
        names = assigned_names(node)
        return (
            len(names) == 1
            and names <= self.variables.block_names
            and self.variables.is_uniform_assignment(node)
        )

    def _can_go_before(self, node: ast.stmt, pending: list[ast.stmt]) -> bool:
        """Return whether a uniform assignment may run before the statements gathered so far."""
        if not pending:
            return True
        names = assigned_names(node)
        if names & (loaded_names(pending) | assigned_names(pending)):
            return False
        loads = any(isinstance(n, ast.Subscript) for n in walk_here(assigned_value(node)))
        return not loads or not any(map(writes_memory, pending))

    def cut(self, node: ast.stmt, guards: tuple[ast.expr, ...]) -> list[Item]:
        """Split one statement into items."""
        match node:
            case ast.If():
                return self.cut_if(node, guards)
            case ast.For():
                return self.cut_for(node, guards)
            case ast.While():
                return self.cut_while(node, guards)
            case ast.Break() | ast.Continue():
                return [Leave(node)]
            case ast.Assign(targets=[ast.Name() as target], value=ast.Call() as call):
                return self.cut_vote(target.id, call, guards)
            case ast.Expr(value=ast.Call() as call):
                return self.cut_vote(None, call, guards)
            case _:
                raise UnsupportedConstructError(
                    "a barrier is in a statement that the CPU target cannot split",
                    where=self.unit.locate(node),
                    remedy="Call the barrier in a separate statement",
                )

    def given(
        self,
        target: str | None,
        call: ast.Call,
        guards: tuple[ast.expr, ...],
        write: Callable[[str | None], list[ast.stmt]],
    ) -> list[Item]:
        """Return the items of what the block does once for a variable, which threads may have.

        `write` gives the statements that assign a result of the block to a name.
        """
        if target is None or target in self.variables.block_names:
            return [Once(place_at(each, call)) for each in write(target)]
        result = self.names.make("result")
        self.variables.block_names.add(result)
        items: list[Item] = [Once(place_at(each, call)) for each in write(result)]
        return [*items, self.threads([place_at(assign(target, load(result)), call)], guards)]

    def fetch(self, call: ast.Call, guards: tuple[ast.expr, ...]) -> tuple[list[Item], ast.Call]:
        """Return a call that the block can make, and preceding items.

        All threads agree on what the call is given. What lives in them, each writes to a variable.
        """
        items: list[Item] = []
        renamed: dict[str, ast.Name] = {}
        for name in sorted(loaded_names(call.args)):
            if self.variables.evaluable(load(name)):
                continue
            renamed[name] = load(self.names.make(name))
            self.variables.block_names.add(renamed[name].id)
            fetch = place_at(assign(renamed[name].id, load(name)), call)
            items.append(self.threads([fetch], guards))
        return items, _rename_variables(call, renamed)

    def cut_together(
        self, target: str | None, call: ast.Call, guards: tuple[ast.expr, ...]
    ) -> list[Item]:
        """Return the items of what the block does once, for all of its threads."""
        items, fetched = self.fetch(call, guards)

        def write(name: str | None) -> list[ast.stmt]:
            return [assign(name or self.names.make("result"), fetched)]

        return [*items, *self.given(target, call, guards, write)]

    def cut_vote(
        self, target: str | None, call: ast.Call, guards: tuple[ast.expr, ...]
    ) -> list[Item]:
        use = self._use(call)
        lowering = lowering_of(use.intrinsic)
        if isinstance(lowering, Together):
            return self.cut_together(target, call, guards)
        assert isinstance(lowering, Cut)
        form = lowering.form
        if form is None:
            return [*lowering.items]  # the end of the items before it is the barrier of a block
        if target is None:
            return [Vote(self.names.make("vote"), form, call.args[0], guards)]
        if target in self.variables.block_names:
            return [Vote(target, form, call.args[0], guards)]
        result = self.names.make("vote")
        return [
            Vote(result, form, call.args[0], guards),
            self.threads([place_at(assign(target, load(result)), call)], guards),
        ]

    def cut_if(self, node: ast.If, guards: tuple[ast.expr, ...]) -> list[Item]:
        if not self.uniformity.is_uniform(node.test):
            return self.cut_masked_if(node, guards)
        before, test = self.block_value(node.test, guards, default=False)
        return [
            *before,
            Branch(test, self.block(node.body, guards), self.block(node.orelse, guards)),
        ]

    def _needs_mask(self, node: ast.If) -> bool:
        return not self.uniformity.is_uniform(node.test) and not self.pure.is_pure(node.test)

    def cut_masked_if(
        self, node: ast.If, guards: tuple[ast.expr, ...], pending: Pending | None = None
    ) -> list[Item]:
        """Cut an ``if`` around a warp barrier: some threads take part, all go through its items.

        If there are statements before it that need not end first, it goes on with them.
        """
        items: list[Item] = []
        taken: tuple[ast.expr, ...] = (*guards, node.test)
        other: tuple[ast.expr, ...] = (*guards, negate(copy.deepcopy(node.test), self.pure))
        if self._needs_mask(node):
            before, taken, other = self.mask(node, guards)
            if pending is None:
                items.append(Threads(before))
            else:
                pending.add(before, (), is_masked=False)
        self.mask_depth += 1
        items += self.block(node.body, taken, pending=pending)
        if node.orelse:
            items += self.block(node.orelse, other, pending=pending)
        self.mask_depth -= 1
        return items

    def mask(
        self, node: ast.If, guards: tuple[ast.expr, ...]
    ) -> tuple[list[ast.stmt], tuple[ast.expr, ...], tuple[ast.expr, ...]]:
        """Return what evaluates a test, and the guards of both branches.

        A mask stands for those around it, too, so that an item fetches one, however deep it is.
        """
        rest = tuple(g for g in guards if not (isinstance(g, ast.Name) and g.id in self.masks))
        mask = self.thread_variable("mask")
        self.masks.add(mask)
        body: list[ast.stmt] = [assign(mask, truth_of(node.test))]
        if guards:
            body = [assign(mask, ast.Constant(False)), *guarded(copy.deepcopy([*guards]), body)]
        other = (*guards, ast.UnaryOp(ast.Not(), load(mask)))
        return [place_at(each, node) for each in body], (*rest, load(mask)), other

    def cut_for(self, node: ast.For, guards: tuple[ast.expr, ...]) -> list[Item]:
        self.require_uniform_loop(node.iter)
        guards = self._in_loop(node, guards)
        before: list[Item] = []
        iterable = node.iter
        if not self.variables.evaluable(iterable):
            if not (
                isinstance(iterable, ast.Call)
                and library_name(iterable.func, self.unit.namespace) == "range"
            ):
                raise UnsupportedConstructError(
                    "a loop with a barrier iterates over values that are private to a thread",
                    where=self.unit.locate(iterable),
                    remedy="Loop over range(…)",
                )
            bounds: list[ast.expr] = []
            for argument in iterable.args:
                more, bound = self.block_value(argument, guards, default=0)
                before += more
                bounds.append(bound)
            iterable = place_at(ast.Call(iterable.func, bounds, []), node.iter)
        target: ast.expr = node.target
        inner: list[Item] = []
        if not assigned_names(target) <= self.variables.loop_names:
            # The loop variable is also assigned elsewhere: each thread gets a copy.
            counter = self.names.make("loop")
            copied = ast.Assign([target], load(counter))
            inner.append(self.threads([place_at(copied, node)], guards))
            target = place_at(store(counter), node)
        self.loop_depth += 1
        inner += self.block(node.body, guards)
        self.loop_depth -= 1
        return [*before, ForLoop(target, iterable, inner)]

    def cut_while(self, node: ast.While, guards: tuple[ast.expr, ...]) -> list[Item]:
        self.require_uniform_loop(node.test)
        guards = self._in_loop(node, guards)
        self.loop_depth += 1
        body = self.block(node.body, guards)
        self.loop_depth -= 1
        before, test = self.block_value(node.test, guards, default=False)
        if not before:
            return [WhileLoop(test, body)]
        leave = Branch(ast.UnaryOp(ast.Not(), test), [Leave(ast.Break())])
        return [WhileLoop(ast.Constant(True), [*before, leave, *body])]

    def _in_loop(self, node: ast.stmt, guards: tuple[ast.expr, ...]) -> tuple[ast.expr, ...]:
        """Return guards of a loop's body; a thread that returns skips later iterations."""
        self.has_marks = self.has_marks or contains_return(node)
        return self._with_mark(guards) if contains_return(node) else guards

    def require_uniform_loop(self, test: ast.expr) -> None:
        if not self.uniformity.is_uniform(test):
            raise UnsupportedConstructError(
                "a barrier or warp exchange is in a loop whose trip count may vary between threads",
                where=self.unit.locate(test),
                remedy="Give the loop a bound that is the same in the whole block, and guard its "
                "body with an if",
            )

    def block_value(
        self, value: ast.expr, guards: tuple[ast.expr, ...], default: bool | int
    ) -> tuple[list[Item], ast.expr]:
        """Return an expression that the block can evaluate, and the items that make it so.

        A value that all threads agree on, but that lives in them, is fetched by an item: each
        thread writes it to the same variable.
        """
        # Where no thread may pass the guards, the block must not load on their behalf.
        loads = any(isinstance(n, ast.Subscript) for n in walk_here(value))
        if self.variables.evaluable(value) and not (guards and loads):
            return [], value
        name = self.names.make("test" if default is False else "bound")
        self.variables.block_names.add(name)
        chosen = value
        if default is False:
            chosen = truth_of(value)
        start = place_at(assign(name, ast.Constant(default)), value)
        fetch = place_at(assign(name, chosen), value)
        return [Once(start), self.threads([fetch], guards)], place_at(load(name), value)


def _rename_variables(node: ast.Call, names: dict[str, ast.Name]) -> ast.Call:
    """Return a copy of a call in which some variables have other names."""

    class Renaming(Transformer):
        def visit_Name(self, node: ast.Name) -> ast.Name:
            return copy.copy(names.get(node.id, node))

    result = Renaming().visit(copy_tree(node))
    assert isinstance(result, ast.Call)
    return result
