"""Which plans are chosen: library kernels and a kernel with a space, on described devices.

Registers are made up, so that no assembler is asked and every machine gives the same text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.contract import ElementMapping, Resources
from kerneldsl.launch.decision import make_problems
from kerneldsl.planner.choose import Problem, choose
from kerneldsl.planner.describe import describe
from stdlib_kernels import copying
from stdlib_kernels.imaging import levels


@kd.kernel(
    space=kd.Space(
        block=[32, 64, 128, 256, 512],
        items=[1, 4, 16],
        covers=lambda c: c.block * c.items,
        shared=lambda c: 4 * c.block,
    )
)
def total(x, out, *, items):
    cells = kd.shared.array(0, np.float32)
    t, width = kd.threadIdx.x, kd.blockDim.x
    part = np.float32(0)
    for k in range(items):
        i = (kd.blockIdx.x * items + k) * width + t
        if i < x.size:
            part += x[i]
    cells[t] = part
    kd.syncthreads()
    if t == 0:
        out[kd.blockIdx.x] = cells[0] + cells[width - 1]


def _copying(kernel: Any) -> Any:
    return kernel.member(convert=lambda v: v)


KERNELS = (
    (_copying(copying.copy_1d), "float32[::1], float32[::1]", [(100,), (70_000,), (1 << 26,)]),
    (
        _copying(copying.copy_2d),
        "float64[:, ::1], float64[::1, :]",
        [(7, 1000), (4096, 4096), (1 << 22, 3)],
    ),
    (_copying(copying.copy_3d), "uint8[:, :, ::1], uint8[:, :, ::1]", [(2, 3, 4), (100, 2000, 30)]),
    (levels.look_up, "uint8[:, ::1], uint8[::1], uint8[:, ::1]", [(64, 64), (3000, 4000)]),
    (levels.luma, "uint8[:, :, ::1], uint8[:, ::1]", [(64, 64), (3000, 4000)]),
    (total, "float32[::1], float32[::1]", [(100,), (70_000,), (1 << 26,)]),
)


def _resources(problem: Problem, mapping: ElementMapping) -> Resources:
    loops = sum(value for value in problem.constants if isinstance(value, int))
    return Resources(min(20 + 3 * mapping.item_count + loops, 255), 0, 0, 0, 1024)


def _lines() -> Iterator[str]:
    for kernel, signature, extents in KERNELS:
        for arch in ("sm_75", "sm_90", "sm_120"):
            for extent in extents:
                request: Any = kernel.forall(*extent)._request((signature,), arch=arch)
                asked, exact = (make_problems(request, e) for e in (request.extents, extent))
                assert asked is not None
                assert exact is not None
                plan = describe(exact, choose(asked, _resources))
                values = "".join(f" {name}={value}" for name, value in plan.parameters)
                yield (
                    f"{kernel.__name__} {arch} {extent}: grid {plan.grid_dim} "
                    f"block {plan.block_dim}{values} items {plan.items} vector {plan.vector} "
                    f"{plan.order} {plan.predicted_ns:.4g} ns, {plan.bound}, "
                    f"{plan.considered_count} compared, next {plan.considered[0].block_dim} "
                    f"{plan.considered[0].mapping.items}"
                )


def test_the_plans_that_are_chosen(check_golden: Callable[[str, str], None]) -> None:
    check_golden("plans", "\n".join(_lines()))
