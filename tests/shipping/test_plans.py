"""On a GPU, a launch takes a mapping that is shipped if it is about as good as the best one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import kerneldsl as kd
from kerneldsl.launch.decision import _MOST_OF_BEST, make_problems
from kerneldsl.planner.choose import choose, estimate_resources, preferring, rank
from tests.shipping.programs import build, run, write_package
from tests.support.extent import full_beyond

pytestmark = pytest.mark.usefixtures("own_modules")

_LAUNCH = """
import dataclasses, json, sys
import numpy as np
import kerneldsl as kd
from kerneldsl.launch import artifact
from kerneldsl.placement.registry import get_target
from kerneldsl.tools.cli.worker import described_gpu
from mypkg.kernels import axpy

found = []
make = artifact._compile_or_load
def noted(compiler, specialization):
    made, how, findings = make(compiler, specialization)
    found.append(how)
    return made, how, findings
artifact._compile_or_load = noted

null = get_target("null")
card = described_gpu({arch!r}, null.devices()[0])
# An H200, and a small part of a card.
for multiprocessors, gb_per_s in ((132, 4800), (20, 300)):
    limits = dataclasses.replace(card.limits, multiprocessor_count=multiprocessors)
    extra = {{**card.extra, "memory_clock_rate": gb_per_s * 500_000}}
    null.set_devices(dataclasses.replace(card, limits=limits, extra=extra))
    for n in (1000, 10_000, 1_000_000, 10_000_000, 100_000_000):
        with kd.use("null"):
            x, y = kd.empty(n, np.float32), kd.empty(n, np.float32)
            axpy.forall(n)(np.float32(2), x, y)
print(json.dumps([sorted(set(found)), "numba" in sys.modules]))
"""


@pytest.mark.parametrize("arch", full_beyond(("sm_90", "sm_100"), ("sm_90",)))
def test_other_cards_compile_nothing(tmp_path: Path, arch: str) -> None:
    package = write_package(tmp_path)
    kernels = package / "kernels.py"
    text = kernels.read_text()
    kernels.write_text(text[: text.index("@kd.kernel(signature=[")])
    build(package, "--cpu", "", "--arch", "sm_90")
    done = run(_LAUNCH.format(arch=arch), tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [["shipped"], False]


@kd.kernel
def scale(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = 2 * x[i]


def test_a_mapping_that_is_much_slower_is_not_taken() -> None:
    shape = scale._read_shape((1 << 26,), None)
    request = scale._dispatcher.request(shape, ("float32[::1], float32[::1]",), None, "sm_90")
    (problem,) = make_problems(request, (1 << 26,))
    least: dict[object, float] = {}
    for each in rank([problem], {}):
        least.setdefault(each.candidate.mapping, each.prediction.time_ns)
    best = next(iter(least))
    ratios = {mapping: time / least[best] for mapping, time in least.items()}
    close = max((m for m in ratios if ratios[m] <= _MOST_OF_BEST), key=ratios.__getitem__)
    slow = max(ratios, key=ratios.__getitem__)
    assert ratios[slow] > _MOST_OF_BEST

    def chosen(*ready) -> object:
        preferred = preferring(problem, lambda mapping: mapping in ready, _MOST_OF_BEST)
        return choose([preferred], estimate_resources).candidate.mapping

    assert chosen() == chosen(best) == chosen(best, slow) == chosen(slow) == best
    assert chosen(close) == chosen(close, slow) == close != best
