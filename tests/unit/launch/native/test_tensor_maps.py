"""Tensor maps of launches that native code repeats: those of the arguments, or none."""

from __future__ import annotations

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.contract.tensor_maps import TensorMap
from kerneldsl.launch.native import machine
from targets.cuda.compile import compiler
from targets.cuda.compile.lowered import LaunchAdditions
from tests.support.launched import begin_anew, null_in_use
from tests.support.native import is_native, warm_up

_ADDITIONS = LaunchAdditions((TensorMap(1, (1, 0), (64, 128), 128),), 128)


@kd.kernel
def negate(a, b):
    kd.tile.store(a, (0, 0), -kd.tile.load(b, (0, 0), (8, 64)))


@pytest.fixture
def null(monkeypatch):
    """The null target, with a kernel whose code wants a map of its second argument."""
    begin_anew()
    made = compiler.write_kernel

    def with_additions(*args):
        artifact = made(*args)
        artifact.additions, artifact.tensor_maps = _ADDITIONS, _ADDITIONS.tensor_maps
        return artifact

    monkeypatch.setattr(compiler, "write_kernel", with_additions)
    with null_in_use() as target:
        yield target


def _matrix(rows, columns=64, dtype=np.float32):
    return kd.to_device(np.zeros((rows, columns), dtype))


def test_native_launches_encode_the_maps_of_their_arguments(null):
    a, matrices = _matrix(8), [_matrix(rows) for rows in (8, 24, 100)]
    launch = negate[1, 128]
    warm_up(launch, a, matrices[0])
    null.launches.clear()
    for b in (*matrices, *matrices):
        with is_native(launch):  # its driver compares maps with arguments
            negate[1, 128](a, b)
        with machine.suspended():
            negate[1, 128](a, b)
        by_native, by_python = null.launches[-2:]
        assert by_native == by_python


@pytest.mark.parametrize("columns", [63, 62])
def test_what_a_map_cannot_describe_is_left_to_python(null, columns):
    launch = negate[1, 128]
    warm_up(launch, _matrix(8), _matrix(8))
    with is_native(launch, expected=False):
        negate[1, 128](_matrix(8), _matrix(8, columns))
    with is_native(launch, expected=False):
        negate[1, 128](_matrix(8), _matrix(0))
