"""Slots: their types are found while the code is typed, and are those that probes tell."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import types

import kerneldsl as kd
from targets.cpu.codegen import compiler
from targets.cpu.codegen.compiler import compile_body, infer_types
from targets.cpu.codegen.functions import numba_flags
from targets.cpu.codegen.generate import Generated, generate
from targets.cpu.intrinsics.slots import SlotType

F = 0xFFFFFFFF


@kd.kernel(block=64)
def values_of_all_kinds(x, out):
    t = kd.threadIdx.x
    s = kd.shared.array(64, np.float32)
    number, value, is_even, pair = t * 3, x[t], t % 2 == 0, (t, x[t] * 2.0)
    s[t] = value
    kd.syncthreads()
    value += s[63 - t]
    kd.syncthreads()
    if is_even:
        out[t] = number + value + pair[1]


@kd.kernel(block=64)
def kept_in_narrower_elements(x, out):
    t = kd.threadIdx.x
    s = kd.shared.array(64, np.int32)
    s[t] = x[t]
    kd.syncthreads()
    step = 1
    while step < 64:
        value = s[t] + s[t - step] if t >= step else s[t] + 0
        kd.syncthreads()
        s[t] = value
        kd.syncthreads()
        step *= 2
    out[t] = s[t]


@kd.kernel(block=(16, 4))
def fetched_before_they_are_stored(x, out):
    tx, ty = kd.threadIdx.x, kd.threadIdx.y
    found = np.int64(0)
    last = np.int64(0)
    for k in range(3):
        if k > 0:
            found += last
        kd.syncthreads()
        last = np.int64(x[tx]) + k
        if kd.syncthreads_or(found > 1000):
            found -= 1
    out[ty, tx] = found


@kd.kernel(block=64)
def exchanges(x, out, n):
    t = kd.threadIdx.x
    v, u = np.int64(x[t]), np.float32(t)
    for _ in range(n):
        w = v % 5
        while kd.any_sync(F, w > 0):
            w -= 1
            u += np.float32(kd.popc(kd.ballot_sync(F, v % 3 == w)))
        v = (v + np.int64(u)) % 1000
    out[t] = v


@kd.kernel(block=64)
def of_two_types(x, out):
    t = kd.threadIdx.x
    value = t
    kd.syncthreads()
    out[t] = value // 2
    kd.syncthreads()
    value = x[t] * 0.5
    kd.syncthreads()
    out[t] += value


_ONE_TYPE = {
    values_of_all_kinds: ("float32[::1]", "float32[::1]"),
    kept_in_narrower_elements: ("int32[::1]", "int32[::1]"),
    fetched_before_they_are_stored: ("int32[::1]", "int64[:, ::1]"),
    exchanges: ("int64[::1]", "int64[::1]", "int64"),
}


@pytest.mark.parametrize("kernel", _ONE_TYPE, ids=lambda kernel: kernel.__name__)
def test_types_are_those_that_probes_tell(kernel):
    signature = _ONE_TYPE[kernel]
    opened = _written(kernel, signature, opens_slots=True)
    probed = _written(kernel, signature, opens_slots=False)
    assert opened.has_open_slots
    assert opened.source == probed.source
    _compile(kernel, signature, opened)
    assert _slots(opened) == _slots(probed) != {}


def test_a_slot_of_two_types_is_not_left_open():
    signature = ("float64[::1]", "float64[::1]")
    opened = _written(of_two_types, signature, opens_slots=True)
    with pytest.raises(Exception, match="is to hold float64, too"):
        _compile(of_two_types, signature, opened)
    x, out = np.arange(64.0), np.zeros(64)
    with kd.use("cpu"):
        of_two_types[1, 64](x, out)
    np.testing.assert_array_equal(out, np.arange(64) // 2 + x * 0.5)


def test_slots_beyond_the_stack_are_not_left_open():
    names = [f"v{n}" for n in range(20)]
    sets = "".join(f"    {name} = x[t] + {n}\n" for n, name in enumerate(names))
    text = (
        "def many(x, out):\n    t = kd.threadIdx.x\n"
        f"{sets}    kd.syncthreads()\n    out[t] = {' + '.join(names)}\n"
    )
    kernel = kd.kernel(block=1024)(_function(text, "many"))
    signature = ("float64[::1]", "float64[::1]")
    with pytest.raises(Exception, match="the stack is full"):
        _compile(kernel, signature, _written(kernel, signature, opens_slots=True))
    x, out = np.arange(1024.0), np.zeros(1024)
    with kd.use("cpu"):
        kernel[1, 1024](x, out)
    np.testing.assert_array_equal(out, 20 * x + sum(range(20)))


def test_a_kernel_is_typed_once(monkeypatch):
    def infer(*args: Any) -> Any:
        raise AssertionError("typed before it is compiled")

    monkeypatch.setattr(compiler, "infer_types", infer)
    x, out = np.arange(64), np.zeros(64, np.int64)
    with kd.use("cpu"):
        kd.kernel(block=64)(exchanges.function)[1, 64](x, out, 2)
    assert out.any()


def _function(text: str, name: str) -> Any:
    import linecache

    filename = f"<{name}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    space: dict[str, Any] = {"kd": kd, "np": np}
    exec(compile(text, filename, "exec"), space)
    return space[name]


def _written(kernel: Any, signature: tuple[str, ...], *, opens_slots: bool) -> Generated:
    _, spec = kernel.specialization(", ".join(signature), target="cpu")

    def infer(function: Any, words: int) -> Any:
        return infer_types(function, words, spec.kinds, spec.options.debug)

    return generate(spec, infer, opens_slots=opens_slots)


def _compile(kernel: Any, signature: tuple[str, ...], generated: Generated) -> None:
    _, spec = kernel.specialization(", ".join(signature), target="cpu")
    compile_body(
        generated.function,
        spec.layout,
        fastmath=numba_flags(spec),
        scratch_bytes=generated.scratch_bytes,
        uses_scratch=generated.uses_scratch,
        uses_dynamic=generated.uses_dynamic,
        waits=generated.waits,
        is_short=False,
        unit=spec.unit,
        level=None,
        symbol="",
    )


def _slots(generated: Generated) -> dict[str, tuple[Any, ...]]:
    """Return the type of each slot, by the name of what makes it."""
    found = {}
    for name, maker in generated.function.__globals__.items():
        if name.startswith("kd__make_slot"):
            is_known = hasattr(maker, "_defn")
            made = maker._defn(None, types.voidptr)[0] if is_known else maker.signature((), {})
            slot = made.return_type
            assert isinstance(slot, SlotType)
            found[name] = slot.element, slot.dims, slot.is_narrow
    return found
