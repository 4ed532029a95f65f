"""A launch plan: the decisions for a launch, and their reasons, as a value.

A plan consists of numbers, words and tuples, so that it can be compared, written and read again:
``eval(repr(plan))`` is the plan. Its repr leaves out defaults.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, asdict, field, fields, replace
from typing import TYPE_CHECKING, Any

from kerneldsl.contract import ONE_EACH, Dim3, ElementMapping, HostShare
from kerneldsl.errors import ArgumentValueError
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.shown import Shown
from kerneldsl.utilities.tracebacks import shorten_errors

if TYPE_CHECKING:
    from kerneldsl.planner.formula import PlanFormula, PlanModel

__all__ = ["LaunchPlan", "PlanAlternative"]

_WIDTH = 96
_INDENT = "    "


@dataclass(frozen=True, slots=True, repr=False)
class PlanAlternative:
    """A plan that was considered and not chosen.

    Parameters
    ----------
    block_dim : tuple of int
        Threads of a block.
    mapping : ElementMapping
        How indices are mapped to threads.
    predicted_ns : float or None
        Its time predicted by the model, in nanoseconds; ``None`` if it cannot run.
    why : str
        Why it was not chosen.
    parameters : tuple of (str, object)
        Values of the kernel's compile-time parameters, if it has a space.
    """

    block_dim: Dim3
    mapping: ElementMapping
    predicted_ns: float | None
    why: str
    parameters: tuple[tuple[str, Any], ...] = ()

    def __repr__(self) -> str:

        return _short_repr(self)


@dataclass(frozen=True, slots=True, repr=False)
class LaunchPlan(Shown):
    """Decisions of the planner for a launch, with their reasons.

    Made by ``kernel.forall(*extent).plan(*args)`` and ``kernel[grid, block].plan(*args)``. Pass a
    plan to a launch to use it: ``kernel.forall(n, plan=plan)(*args)``.

    Parameters
    ----------
    kernel, device, arch : str
        The kernel, the device and its architecture.
    extent : tuple of int or None
        The extent of ``forall``, in the user's order.
    grid_dim, block_dim : tuple of int
        Blocks of the grid and threads of a block, x first.
    mapping : ElementMapping
        How the indices of the extent are mapped to threads: items per thread, vector, order.
    shared_bytes : int
        Dynamic shared memory of a block, in bytes.
    carveout_bytes : int or None
        Shared memory of a multiprocessor for its blocks, in bytes; the rest is L1 cache. If the
        device has several configurations, a launch requests this one
        (``CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT``). ``None`` if blocks use no shared
        memory.
    registers, spill_bytes : int or None
        Registers, and bytes of spilled registers, of a thread; ``None`` if unknown.
    active_blocks : int or None
        Blocks that a multiprocessor runs at once.
    occupancy : float or None
        Active warps of a multiprocessor over the largest number of them.
    limiters : tuple of str
        What limits the number of active blocks: ``"warps"``, ``"registers"``, ``"shared_memory"``,
        ``"blocks"``…
    waves, tail_efficiency : float or None
        Blocks of the grid over the blocks that the device runs at once. The average use of the
        device over these waves, from 0 to 1.
    bytes_in_flight, bytes_to_saturate : int or None
        Bytes that are requested from memory at once, and bytes that saturate its bandwidth.
    bytes_moved : int or None
        Bytes of memory that the launch reads and writes.
    predicted_ns : float or None
        Time on the device predicted by the model, in nanoseconds; see :meth:`formula`.
    bound : str or None
        The largest part of that time: ``"memory"``, ``"latency"``, ``"compute"``,
        ``"block starts"`` or ``"launch"``.
    considered_count : int
        Number of plans that were compared.
    considered : tuple of PlanAlternative
        The best plans that were not chosen.
    reasons, notes : tuple of str
        Reasons for this plan, and obstacles to a faster kernel.
    parameters : tuple of (str, object)
        Values of the kernel's compile-time parameters, if it has a space.
    cluster_dim : tuple of int or None
        Blocks of a cluster.
    is_cooperative : bool
        Whether all blocks must run at once.
    host : HostShare or None
        On the CPU, how the work is shared among threads.
    model : DeviceModel or HostModel or None
        Inputs of the prediction, for :meth:`formula`. It is neither compared nor written: a plan
        that was read from text has none.

    Examples
    --------
    >>> import kerneldsl as kd
    >>> @kd.kernel
    ... def double(x):
    ...     i = kd.grid(1)
    ...     if i < x.size:
    ...         x[i] *= 2
    >>> plan = double.forall(1 << 24).plan("float32[::1]", arch="sm_90")
    >>> plan.bound, plan.grid_blocks * plan.block_threads * plan.items[0] >= 1 << 24
    ('memory', True)
    """

    kernel: str
    device: str
    arch: str
    extent: tuple[int, ...] | None
    grid_dim: Dim3
    block_dim: Dim3
    mapping: ElementMapping = ONE_EACH
    shared_bytes: int = 0
    carveout_bytes: int | None = None
    registers: int | None = None
    spill_bytes: int | None = None
    active_blocks: int | None = None
    occupancy: float | None = None
    limiters: tuple[str, ...] = ()
    waves: float | None = None
    tail_efficiency: float | None = None
    bytes_in_flight: int | None = None
    bytes_to_saturate: int | None = None
    bytes_moved: int | None = None
    predicted_ns: float | None = None
    bound: str | None = None
    considered_count: int = 0
    considered: tuple[PlanAlternative, ...] = ()
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    parameters: tuple[tuple[str, Any], ...] = ()
    cluster_dim: Dim3 | None = None
    is_cooperative: bool = False
    host: HostShare | None = None
    model: PlanModel | None = field(default=None, repr=False, compare=False)

    @property
    def items(self) -> Dim3:
        """Items per thread along x, y and z."""
        return self.mapping.items

    @property
    def vector(self) -> int:
        """Consecutive items for one memory access."""
        return self.mapping.vector

    @property
    def order(self) -> str:
        """Order of a thread's groups of items: ``"strided"`` or ``"contiguous"``."""
        return self.mapping.order

    @property
    def block_threads(self) -> int:
        """The number of threads of a block."""
        x, y, z = self.block_dim
        return x * y * z

    @property
    def grid_blocks(self) -> int:
        """The number of blocks of the grid."""
        x, y, z = self.grid_dim
        return x * y * z

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as dictionaries, tuples and numbers, for JSON."""
        found = asdict(replace(self, model=None))
        del found["model"]
        return found

    @shorten_errors
    def formula(self) -> PlanFormula:
        """Return the cost model of `predicted_ns` as SymPy expressions.

        Returns
        -------
        PlanFormula
            The expressions, and the values of their symbols in this plan.

        Raises
        ------
        ArgumentValueError
            If the plan has no prediction, or was read from its text.
        ToolMissingError
            If SymPy is not installed.

        Examples
        --------
        >>> import kerneldsl as kd
        >>> @kd.kernel
        ... def double(x):
        ...     i = kd.grid(1)
        ...     if i < x.size:
        ...         x[i] *= 2
        >>> plan = double.forall(1 << 24).plan("float32[::1]", arch="sm_90")
        >>> formula = plan.formula()
        >>> formula.time_ns
        launch_ns + lifetime_ns + pace_ns
        >>> abs(formula.evaluate() / plan.predicted_ns - 1) < 1e-12
        True
        >>> formula.evaluate(memory_bytes_per_s=1e12) > 2 * plan.predicted_ns
        True
        """
        from kerneldsl.planner.formula import model_formula

        if self.model is None:
            raise ArgumentValueError(
                f"the plan of {self.kernel} has no formula",
                value=self.predicted_ns,
                limit="A formula needs the inputs of the prediction; a plan that "
                "was read from its text, or of a device that no model knows, has none",
                remedy="Call kernel.forall(n).plan(…).formula()",
            )
        return model_formula(self.model)

    def explain(self) -> str:
        """Return the decisions, their reasons and the best alternatives as text.

        Examples
        --------
        >>> import kerneldsl as kd
        >>> @kd.kernel
        ... def double(x):
        ...     x[kd.grid(1)] *= 2
        >>> plan = double.forall(1 << 24).plan("float32[::1]", arch="sm_90")
        >>> "memory" in plan.explain()
        True
        """
        from kerneldsl.planner.words import explain_plan

        return explain_plan(self)

    def __repr__(self) -> str:

        return _plan_repr(self, str(self))

    def __str__(self) -> str:
        from kerneldsl.planner.words import headline

        return headline(self)


def _short_repr(value: Any) -> str:
    """Return a dataclass as the call that makes it, without fields that have their default.

    Examples
    --------
    >>> from kerneldsl import ElementMapping
    >>> _short_repr(ElementMapping((4, 1, 1), vector=4))
    'ElementMapping(items=(4, 1, 1), vector=4)'
    """
    return f"{type(value).__name__}({', '.join(_given(value))})"


def _plan_repr(plan: Any, headline: str) -> str:
    """Return a plan as the call that makes it, broken into lines, under what it says in one line.

    `headline` is in a comment, so that the whole is an expression.
    """
    lines = [f"{type(plan).__name__}(  # {' '.join(headline.split())}"]
    current = ""
    for part in (f"{each}," for each in _given(plan)):
        if current and len(_INDENT) + len(current) + 1 + len(part) > _WIDTH:
            lines.append(_INDENT + current)
            current = ""
        current = f"{current} {part}".lstrip()
    return "\n".join([*lines, _INDENT + current, ")"])


def _given(value: Any) -> Iterator[str]:
    for each in fields(value):
        if not each.repr:
            continue
        found = getattr(value, each.name)
        if each.default is MISSING or found != each.default:
            yield f"{each.name}={_written(found)}"


def _written(value: Any) -> str:
    """Return an expression of a field's value; a tuple of long ones has a line for each."""
    if hasattr(value, "__dataclass_fields__"):
        return _short_repr(value)
    if type(value) is not tuple:
        return repr(value)
    parts = [_written(item) for item in value]
    if sum(map(len, parts)) < _WIDTH:
        return f"({', '.join(parts)}{',' * (len(parts) == 1)})"
    inner = "".join(f"{2 * _INDENT}{part},\n" for part in parts)
    return f"(\n{inner}{_INDENT})"
