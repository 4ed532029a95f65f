"""What native code remembers of launches: the last one's object, and arrays that it has read."""

from __future__ import annotations

import gc
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from kerneldsl.contract.abi import EXPLICIT, ParameterLayout
from kerneldsl.frontend.normalize import make_unit
from kerneldsl.launch.arguments.arguments import bind
from kerneldsl.launch.arguments.binding import kinds_of
from kerneldsl.launch.native import machine
from kerneldsl.launch.native.step_kinds import StepKind
from kerneldsl.launch.native.steps import StepMaker
from kerneldsl.placement.devices import current_device
from tests.support.extent import examples
from tests.support.fake_target import installed
from tests.support.native import NativeFakeTarget, is_native, require_native, warm_up


@pytest.fixture(autouse=True)
def native():
    require_native()
    for kernel in (writes, several):
        kernel._remember_launches()


@pytest.fixture
def fake():
    with installed(NativeFakeTarget("fake")) as target, kd.use("fake"):
        yield target


@kd.kernel
def writes(x):
    x[0] = 1


@kd.kernel
def several(x, a, pair, y):
    y[0] = x[0] + pair[0][0] + pair[1][0] + a


def anew(number: int) -> int:
    """An equal int that is another object."""
    return int(str(number))


# --------------------------------------------------------------------------- the last launch


def test_an_equal_extent_is_looked_up_once_for_each_object():
    first, second = anew(100_000), anew(100_000)
    launch = writes.forall(first)
    for extent in (first, second, first, second):
        assert writes.forall(extent) is launch
        assert writes._last_extent_key is extent  # so the next time no dictionary is asked
        assert writes._last_extent is launch
    by_grid = writes[first, 32]
    for grid in (second, first):
        assert writes[grid, 32] is by_grid
        assert writes._last_grid is by_grid
        assert writes._last_grid_dim is grid


def test_launches_that_take_turns_are_found_by_both_lengths():
    grid_dims, block_dims = [anew(300), anew(400)], [anew(288), anew(320)]
    asked = [(grid, block) for grid in grid_dims for block in block_dims]
    for _ in range(3):
        for grid, block in asked:
            found = writes[grid, block]
            assert found is writes[grid, block]
            assert found._shape.grid_dim == (grid, 1, 1)
            assert found._shape.block_dim == (block, 1, 1)


def test_objects_that_were_asked_with_are_let_go_of():
    extents = [anew(100_000) for _ in range(4)]
    writes.forall(extents[0])
    writes[extents[0], 32]
    before = [sys.getrefcount(each) for each in extents[1:]]
    for _ in range(1000):
        for each in extents[1:]:
            writes.forall(each)
            writes[each, 32]
    del each
    writes.forall(extents[0])
    writes[extents[0], 32]
    assert [sys.getrefcount(each) for each in extents[1:]] == before


def test_true_is_no_extent_of_one():
    assert writes.forall(1) is writes.forall(anew(1))
    with pytest.raises(kd.LaunchConfigError, match="bool"):
        writes.forall(True)
    assert writes.forall(1)._shape.extent == (1,)


@pytest.mark.skipif(
    sys.version_info >= (3, 13),
    reason="from 3.13 on, instances whose classes have slots always have a dictionary",
)
def test_a_kernel_keeps_its_attributes_where_cpython_finds_methods_soonest(fake):
    @kd.kernel
    def fill(x):
        """Of its own."""
        x[0] = 1

    fill.forall(4)(kd.zeros(4, np.float32))
    assert fill.__doc__ == "Of its own."
    assert not [each for each in gc.get_referents(fill) if type(each) is dict and "options" in each]


# --------------------------------------------------------------------------- arrays


@settings(max_examples=examples(150), deadline=None)
@given(
    turns=st.lists(
        st.tuples(*[st.integers(0, 6)] * 4, st.floats(allow_nan=False)), min_size=2, max_size=12
    )
)
def test_known_arrays_and_others_side_by_side(turns):
    """Each launch passes what Python's would, whichever arrays the table was made with."""
    with installed(NativeFakeTarget("fake")) as fake, kd.use("fake"):
        several._remember_launches()
        whole = [kd.to_device(np.full(n, 7, np.float32)) for n in (3, 4, 5, 6)]
        arrays = [*whole, whole[3][1:], whole[3][2:5], whole[0].as_read_only()]
        launch = several.forall(3)
        for x, first, second, y, number in turns:
            args = (arrays[x], number, (arrays[first], arrays[second]), arrays[y % 6])
            told = []
            for _ in range(2):
                launch(*args)
                told.append(fake.launches[-1])
            with machine.suspended():
                launch(*args)
            assert told == [fake.launches[-1]] * 2


def test_a_known_array_passes_what_it_has(fake):
    x, y = (kd.to_device(np.arange(n, dtype=np.float32)) for n in (5, 7))
    launch = writes[1, 1]
    warm_up(launch, x)
    assert len(launch._tables) == 1
    for each in (x, y, x, x, y):
        with is_native(launch):
            launch(each)
        assert fake.launches[-1][2] == {"x.data": each.pointer, "x.shape[0]": each.size}
    address = y.pointer
    x.close()
    with pytest.raises(kd.ClosedResourceError):
        launch(x)
    assert fake.launches[-1][2]["x.data"] == address


@pytest.mark.parametrize(
    ("view", "is_written", "is_known"),
    [
        ("whole", True, True),
        ("read-only", False, True),
        ("read-only", True, False),
        ("elsewhere", False, False),
        ("unsealed", False, False),
    ],
)
def test_an_array_is_known_where_its_block_fulfils_what_is_asked(fake, view, is_written, is_known):
    with kd.use("fake:1" if view == "elsewhere" else "fake:0"):
        x = kd.zeros(4, np.float32)
    if view == "read-only":
        x = x.as_read_only()
    kinds = kinds_of(bind(("x",), (x,)).codes)
    if view == "unsealed":
        x._block = None
    unit = make_unit(writes.function)
    maker = StepMaker(ParameterLayout(unit.parameters, kinds, EXPLICIT), current_device())
    steps = maker.steps((x,), kinds, kinds, {0} if is_written else set())
    assert steps is not None
    assert steps[0].kind is StepKind.DEVICE_ARRAY
    assert (steps[0].block is not None) == is_known
    image = bytearray(b"\xff" * 16)
    steps[0].fill_in(image)
    expected = x.pointer.to_bytes(8, sys.byteorder) + (4).to_bytes(8, sys.byteorder)
    assert bytes(image) == (expected if is_known else b"\xff" * 16)


def test_a_closed_array_is_no_array_that_was_never_known(fake):
    x = kd.to_device(np.ones(4, np.float32))
    x._owner._home = object()  # as memory of another stream has it, which no table knows
    launch = writes[1, 1]
    for _ in range(5):
        launch(x)
    assert launch._tables
    count = len(fake.launches)
    x.close()
    with pytest.raises(kd.ClosedResourceError):
        launch(x)
    assert len(fake.launches) == count


def test_a_table_keeps_the_blocks_that_it_knows(fake):
    x = kd.to_device(np.ones(4, np.float32))
    launch = writes[1, 1]
    warm_up(launch, x)
    block = x._block
    del x
    gc.collect()
    alone = object()  # Python 3.14 does not count what a call borrows from a name
    assert sys.getrefcount(block) > sys.getrefcount(alone)  # the table's step has it, too
    launch._tables = ()
    assert sys.getrefcount(block) == sys.getrefcount(alone)


def test_known_arrays_on_the_host():
    """The buffer of a launch there begins with what the threads share out."""
    with kd.use("cpu"):
        x = kd.to_device(np.full(100, 7, np.float32))
        others = [kd.to_device(np.full(n, 7, np.float32)) for n in (50, 100, 100)]
        launch = writes.forall(100)
        warm_up(launch, x)
        for each in (x, *others, x):
            each.fill(3)
            with is_native(launch):
                launch(each)
            found = each.copy_to_host()
            assert found[0] == 1
            assert (found[1:] == 3).all()
