"""Whatever fails, and wherever: the results are right, or the error names what may be damaged."""

from __future__ import annotations

import ctypes
import warnings
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from kerneldsl.contract import Artifact, Executable, LaunchConfig, PoolBackend, Specialization
from kerneldsl.memory.strided import host_view
from targets import null
from tests.support.extent import examples
from tests.support.fake_target import FakeDevice, FakeTarget, installed

#: What can fail, in the order of a launch.
STEPS = (
    "compile",
    "load",
    "allocate",
    "copy_from_host",
    "launch",
    "run",
    "copy_to_host",
    "synchronize",
)
CATEGORIES = ("initialization", "device", "memory", "kernel", "launch", "stream", "system")


@kd.kernel
def mix(x, y, out, total):
    i = kd.grid(1)
    if i < out.size:
        out[i] = 2 * x[i] + y[i]
        total[i] += x[i]  # a second run over changed data would be seen


class FaultyDevice(FakeDevice):
    def load(self, artifact: Artifact) -> Executable:
        self.owner.begin("load")
        return super().load(artifact)

    def create_pool(self) -> PoolBackend:
        pool = super().create_pool()
        acquire = pool.acquire

        def acquire_or_fail(nbytes: int, stream: Any) -> int:
            self.owner.begin("allocate")
            return acquire(nbytes, stream)

        pool.acquire = acquire_or_fail  # type: ignore[method-assign]
        return pool

    def _copy(self, step: str, destination: int, source: int, nbytes: int) -> None:
        if self.owner.fails(step):
            ctypes.memmove(destination, source, nbytes // 2)
            assert self.owner.error is not None
            raise self.owner.error
        ctypes.memmove(destination, source, nbytes)

    def copy_from_host(
        self, destination: int, source: int, nbytes: int, *args: Any, **named: Any
    ) -> None:
        self._copy("copy_from_host", destination, source, nbytes)

    def copy_to_host(
        self, destination: int, source: int, nbytes: int, *args: Any, **named: Any
    ) -> None:
        self._copy("copy_to_host", destination, source, nbytes)

    def synchronize(self) -> None:
        self.owner.begin("synchronize")


class FaultyTarget(FakeTarget):
    """A device with memory of its own that runs `mix`, and fails where it is told to.

    A copy that fails has copied half; a kernel that fails while it runs has written half.
    """

    device = FaultyDevice

    def __init__(self) -> None:
        super().__init__("faulty", devices=1)
        self.step: str | None = None
        self.countdown = 0
        self.is_lasting = False
        self.error: kd.DriverError | None = None
        self.body = self._mix

    def fails(self, step: str) -> bool:
        """Whether this step fails now: once, or from the first time on."""
        if step != self.step:
            return False
        self.countdown -= 1
        return self.countdown == -1 or (self.countdown < 0 and self.is_lasting)

    def begin(self, step: str) -> None:
        if self.fails(step):
            assert self.error is not None
            raise self.error

    def compile(self, specialization: Specialization) -> Artifact:
        self.begin("compile")
        return super().compile(specialization)

    def _mix(self, config: LaunchConfig, values: dict[str, Any]) -> None:
        self.begin("launch")
        x, y, out, total = (_view(values, name) for name in ("x", "y", "out", "total"))
        half = out.size // 2
        out[:half] = 2 * x[:half] + y[:half]
        total[:half] += x[:half]
        self.begin("run")
        out[half:] = 2 * x[half:] + y[half:]
        total[half:] += x[half:]


def _view(values: dict[str, Any], name: str) -> np.ndarray[Any, Any]:
    size, stride = values[f"{name}.shape[0]"], values.get(f"{name}.strides[0]", 8)
    return host_view(values[f"{name}.data"], (size,), (stride,), np.dtype(np.float64), None)


@settings(
    max_examples=examples(250, 20),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    kinds=st.tuples(*[st.sampled_from(["host", "column", "device"])] * 4),
    size=st.integers(2, 40),
    step=st.sampled_from(STEPS),
    category=st.sampled_from(CATEGORIES),
    countdown=st.integers(0, 4),
    is_lasting=st.booleans(),
    policy=st.sampled_from(["warn", "silent", "never"]),
    seed=st.integers(0, 2**32 - 1),
)
def test_results_are_right_or_the_damage_is_named(
    kinds, size, step, category, countdown, is_lasting, policy, seed
):
    rng = np.random.default_rng(seed)
    data = {
        name: rng.integers(-100, 100, size).astype(float) for name in ("x", "y", "out", "total")
    }
    # The columns of one table overlap each other in memory, though not in their elements.
    table = rng.integers(-100, 100, (size, 7)).astype(float)
    with installed(FaultyTarget()) as target, kd.use("faulty"), kd.fallback(policy):
        arguments: dict[str, Any] = {}
        for column, (name, kind) in enumerate(zip(data, kinds, strict=True)):
            if kind == "device":
                arguments[name] = kd.to_device(data[name])
            elif kind == "column":
                table[:, column] = data[name]
                arguments[name] = table[:, column]
            else:
                arguments[name] = data[name].copy()
        untouched = table[:, 4:].copy()
        kernel = kd.kernel(mix.function)
        target.step, target.countdown, target.is_lasting = step, countdown, is_lasting
        # An error while the kernel runs is the device's: it takes the context with it.
        target.error = null.fault("CUDA_ERROR_ILLEGAL_ADDRESS" if step == "run" else category)
        raised: kd.KernelError | None = None
        kd.reset_stats()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", kd.FallbackWarning)
            try:
                kernel.forall(size)(**arguments)
            except kd.KernelError as error:
                raised = error
        target.step = None
        found = {
            name: value if isinstance(value, np.ndarray) else value.copy_to_host()
            for name, value in arguments.items()
        }
        fallbacks = kd.stats().fallbacks

    np.testing.assert_array_equal(table[:, 4:], untouched)
    right = data | {
        "out": 2 * data["x"] + data["y"],
        "total": data["total"] + data["x"],
    }
    if raised is None:
        for name, expected in right.items():
            np.testing.assert_array_equal(found[name], expected, name)
    else:
        named = set(str(raised).rpartition("half-written: ")[2].split(", "))
        damaged = {n for n in data if not np.array_equal(found[n], data[n])}
        if step == "run":  # the kernel's own doing, on what it was given to write
            damaged -= {n for n, kind in zip(data, kinds, strict=True) if kind == "device"}
        assert damaged <= named, (damaged, str(raised))
    if policy == "never":
        assert fallbacks == 0
