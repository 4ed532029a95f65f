"""Launch configurations: while a kernel is compiled, callbacks before launches, and pickling."""

from __future__ import annotations

import pickle
import threading

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl import cuda
from kerneldsl.cuda import launchconfig
from tests.support.targets import require


@pytest.fixture(autouse=True, params=["cpu", "cuda"])
def target(request):
    if request.param != "cpu":
        require(request.param)
    with kd.use(request.param):
        yield request.param


def make_increment():
    @cuda.jit
    def increment(x):
        x[0] += 1

    return increment


def test_there_is_none_outside_of_a_launch():
    assert launchconfig.current_launch_config() is None
    with pytest.raises(RuntimeError, match="No launch config set for this thread"):
        launchconfig.ensure_current_launch_config()
    with pytest.raises(RuntimeError, match="No launch config set for this thread"):
        make_increment().mark_launch_config_sensitive()


def test_the_launch_that_is_compiled_for():
    increment, x, y = make_increment(), np.zeros(1), np.zeros(1)
    with launchconfig.capture_compile_config(increment) as captured:
        increment[3, (4, 2)](x)
    found = captured["config"]
    assert found.dispatcher is increment
    assert (found.griddim, found.blockdim, found.sharedmem) == ((3, 1, 1), (4, 2, 1), 0)
    assert found.args is None
    assert x[0] > 0
    with launchconfig.capture_compile_config(increment) as captured:
        increment[3, 4](y)
    assert captured["config"] is None


def test_each_thread_has_its_own():
    increment, barrier, seen = make_increment(), threading.Barrier(2), {}
    launch, compiled = increment[1, 1], increment._compile_for_args

    def noting(*args):
        config = launchconfig.ensure_current_launch_config()
        barrier.wait(20)
        seen[threading.get_ident()] = config.args
        return compiled(*args)

    increment._compile_for_args = noting
    arrays = [np.zeros(1), np.zeros(1)]
    threads = [threading.Thread(target=launch, args=(each,)) for each in arrays]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert {id(args[0]) for args in seen.values()} == set(map(id, arrays))
    assert [each[0] for each in arrays] == [1, 1]
    assert launch.args is None


def test_an_error_ends_the_launch():
    increment, x = make_increment(), np.zeros(1)

    def failing(*args):
        raise KeyError("refused")

    increment._compile_for_args = failing
    with pytest.raises(KeyError, match="refused"):
        increment[1, 1](x)
    assert x[0] == 0
    assert launchconfig.current_launch_config() is None


def test_compiling_for_arguments():
    increment = make_increment()
    assert increment._compile_for_args(np.zeros(1, np.float32)) in increment.overloads.values()


def test_callbacks():
    increment, x, seen = make_increment(), np.zeros(1), []
    launch = increment[1, 1]
    for _ in range(100):  # native code repeats it
        launch(x)

    def callback(kernel, config):
        seen.append((kernel.argument_types, config.griddim, config.args[0], x[0]))

    launch.pre_launch_callbacks.append(callback)
    for _ in range(100):
        launch(x)
    assert len(seen) == 100
    assert seen[-1][:2] == (next(iter(increment.overloads)), (1, 1, 1))
    assert seen[-1][2] is x
    assert [each[3] for each in seen] == list(range(100, 200))
    with pytest.raises(pickle.PicklingError, match="with pre-launch callbacks"):
        pickle.dumps(launch)
    launch.pre_launch_callbacks.clear()
    launch(x)
    assert (x[0], len(seen)) == (201, 100)


def test_a_kernel_that_depends_on_it():
    increment, x, seen = make_increment(), np.zeros(1), []
    compiled = increment._compile_for_args

    def marking(*args):
        config = launchconfig.ensure_current_launch_config()
        seen.append(config.blockdim)
        config.dispatcher.mark_launch_config_sensitive()
        return compiled(*args)

    increment._compile_for_args = marking
    for block in (1, 1, 1, 32, 32, 1):
        increment[1, block](x)
    assert seen == [(1, 1, 1)]  # the other one is compiled by another object
    assert len(increment._launch_config_specializations) == 2
    assert all(each.launch_config_sensitive for each in increment.overloads.values())
