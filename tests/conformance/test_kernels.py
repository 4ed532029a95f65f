"""Every case on every target: fresh inputs, poisoned outputs, every array compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.frontend.effects.effects import syncs_grid
from kerneldsl.memory.geometry import ArrayGeometry
from tests.conformance.kernels import CASES, QUICK_CASES
from tests.support.cases import Case, copy_arguments, kind_of, owner_of
from tests.support.extent import full_beyond, within_extent
from tests.support.native import fill_budgets, is_native, require_native
from tests.support.python_kernels import unit_of
from tests.support.targets import target_names


def test_names_are_unique() -> None:
    names = [c.name for c in CASES]
    assert len(set(names)) == len(names)


def _on_every_target() -> list[Any]:
    """Every case on every target; of a quick run's cases the null target launches a few.

    It computes nothing, and ``tests/ptx`` compiles and assembles all of them.
    """
    parameters = []
    quick = {case.name for case in QUICK_CASES}
    seen: Counter[str] = Counter()
    for case in CASES:
        topic = case.name.partition(".")[0]
        seen[topic] += 1
        for target in target_names():
            is_left_out = target == "null" and (seen[topic] > 1 or len(seen) % 2 == 0)
            is_full = case.name not in quick or is_left_out
            marks = (pytest.mark.full,) if is_full else ()
            name = f"{target}-{case.name}"
            parameters.append(pytest.param(target, case, id=name, marks=marks))
    return within_extent(parameters)


@pytest.mark.parametrize(("target", "case"), _on_every_target(), indirect=["target"])
def test_case(target: str, case: Case, rng: np.random.Generator) -> None:
    case.check(target, rng)


@pytest.mark.parametrize(
    "case",
    [c for c in CASES if c.name.startswith(("arrays.layout", "ids.forall"))],
    ids=lambda c: c.name,
)
def test_device_arrays(computing_target: str, case: Case, rng: np.random.Generator) -> None:
    """The same launch on arrays that were put on the device first."""
    args = case.arguments(rng)
    expected = case.expect(args)
    with kd.use(computing_target):
        on_device = tuple(
            kd.to_device(a) if isinstance(a, np.ndarray) else a for a in copy_arguments(args)
        )
        case.launch(on_device)
        back = tuple(a if isinstance(a, int) else a.copy_to_host() for a in on_device)
    case.compare(computing_target, back, expected)


@pytest.mark.parametrize("case", full_beyond(CASES, QUICK_CASES[::3]), ids=lambda c: c.name)
def test_prepared_case(computing_target: str, case: Case, rng: np.random.Generator) -> None:
    """The same launch prepared, and made by native code, on arrays that lie where it runs."""
    require_native()
    args = case.arguments(rng)
    expected = case.expect(args)
    with kd.use(computing_target):
        given = args if computing_target == "cpu" else on_device(args)
        launch = case.shaped()
        bound = launch.bind(*given)
        fill_budgets(launch)
        is_empty = case.extent is not None and 0 in case.extent
        # A GPU's arrays are promised to be apart, or one and the same; others go through Python.
        is_promised = computing_target == "cpu" or not overlap_in_part(args)
        # Launches with a barrier of the grid, and of kernels with checks, go through Python.
        by_python = syncs_grid(unit_of(case.kernel)) or launch._dispatcher.is_debug
        is_expected = is_promised and not is_empty and not by_python and not is_of_python(args)
        with is_native(launch, expected=is_expected):
            bound()
        kd.synchronize()
        after = args if computing_target == "cpu" else on_host(given)
    case.compare(computing_target, after, expected)


def is_of_python(value: Any) -> bool:
    """Return whether an argument holds a scalar whose dtype its class does not say."""
    if isinstance(value, tuple):
        return any(map(is_of_python, value))
    return isinstance(value, np.void | np.datetime64 | np.timedelta64)


def overlap_in_part(args: tuple[Any, ...]) -> bool:
    """Return whether two of the arrays share memory, and are not one and the same array."""
    arrays = [a for a in args if isinstance(a, np.ndarray)]
    return any(
        a.__array_interface__ != b.__array_interface__ and np.shares_memory(a, b)
        for a, b in combinations(arrays, 2)
    )


def _like(given: tuple[Any, ...], values: Iterable[Any]) -> tuple[Any, ...]:
    """Return a tuple of other values, with names where the given one has some."""
    return type(given)._make(values) if hasattr(given, "_make") else tuple(values)


def on_device(args: Any, copies: dict[int, Any] | None = None) -> Any:
    """Arguments with their arrays copied; views of one array become views of one copy."""
    if copies is None:
        owners = Counter(id(owner_of(a)) for a in args if isinstance(a, np.ndarray))
        copies = {
            id(owner_of(a)): kd.to_device(owner_of(a))
            for a in args
            if isinstance(a, np.ndarray) and owners[id(owner_of(a))] > 1
        }
    if isinstance(args, tuple):
        return _like(args, (on_device(each, copies) for each in args))
    if not isinstance(args, np.ndarray):
        return args
    owner = owner_of(args)
    if id(owner) not in copies:
        return kd.to_device(args)
    return _view(copies[id(owner)], args, args.ctypes.data - owner.ctypes.data)


def _view(copy: Any, view: np.ndarray, offset: int) -> Any:
    """The view of a copy that `view` is of the array that was copied."""
    place = copy.location + offset
    geometry = ArrayGeometry(copy.device, place, view.shape, view.strides, view.dtype, copy._owner)
    return kd.DeviceArray.over(geometry)


def on_host(args: Any) -> Any:
    if isinstance(args, tuple):
        return _like(args, (on_host(each) for each in args))
    return args.copy_to_host() if isinstance(args, kd.DeviceArray) else args


def test_signatures_describe_the_arguments() -> None:
    for case in CASES:
        args = case.arguments(np.random.default_rng(1))
        assert tuple(kind_of(a) for a in args) == case.kinds, case.name
