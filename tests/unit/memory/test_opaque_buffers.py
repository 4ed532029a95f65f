"""Memory without addresses: arrays, copies, pools and launches of a target of handles alone."""

import gc

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.contract.abi import ParameterLayout, SlotParameters
from kerneldsl.contract.locations import BufferOffset
from kerneldsl.errors import ArgumentTypeError, CompileError
from kerneldsl.language.signatures import parse_signature
from kerneldsl.launch.arguments.checked_promises import promises_of
from tests.support.fake_target import installed
from tests.support.slot_target import SlotTarget


@pytest.fixture
def slots():
    with installed(SlotTarget("slots")) as target, kd.use("slots"):
        yield target


@kd.kernel
def axpy(a, x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


@kd.kernel
def add_pair(pair, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = pair[0][i] + pair[1][i]


@kd.kernel
def double(x):
    i, j = kd.grid(2)
    if i < x.shape[0] and j < x.shape[1]:
        x[i, j] = 2 * x[i, j]


@kd.kernel
def never_compiled(a, x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


def run_axpy(config, named):
    named["out.data"][...] = named["a"] * named["x.data"] + named["y.data"]


def numbers(*shape):
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


def test_a_launch_gets_buffers_in_slots_and_offsets(slots):
    slots.body = run_axpy
    x, y = numbers(100), numbers(100)[::-1].copy()
    on_device = [kd.to_device(each) for each in (x, y)]
    out = kd.zeros(100, np.float32)
    for number in range(3):  # first, planned, and repeated
        axpy.forall(100)(float(number), *on_device, out)
        np.testing.assert_array_equal(out.copy_to_host(), np.float32(number) * x + y)
    assert len(slots.launches) == 3
    (heap,) = slots.heaps()
    assert sorted(heap.used) == [0, 512, 1024]


def test_slices_and_strided_views_are_launched_where_they_are(slots):
    slots.body = run_axpy
    x, base = numbers(400), kd.zeros(400, np.float32)
    on_device = kd.to_device(x)
    axpy.forall(50)(2.0, on_device[50:100], on_device[300:200:-2], base[1::8])
    expected = np.zeros(400, np.float32)
    expected[1::8] = 2 * x[50:100] + x[300:200:-2]
    np.testing.assert_array_equal(base.copy_to_host(), expected)


def test_arrays_in_tuples_and_of_rank_two_have_slots(slots):
    slots.body = lambda config, named: np.add(
        named["pair[0].data"], named["pair[1].data"], out=named["out.data"]
    )
    first, second, out = (kd.to_device(numbers(30)) for _ in range(3))
    add_pair.forall(30)((first, second), out)
    np.testing.assert_array_equal(out.copy_to_host(), 2 * numbers(30))

    slots.body = lambda config, named: np.multiply(
        named["x.data"], 2, out=named["x.data"], casting="unsafe"
    )
    matrix = kd.to_device(np.asfortranarray(numbers(8, 12)))
    double[(1, 1), (16, 16)](matrix.T[2:5])
    expected = numbers(8, 12)
    expected[:, 2:5] *= 2
    np.testing.assert_array_equal(matrix.copy_to_host(), expected)


def test_numpy_arguments_are_staged(slots):
    slots.body = run_axpy
    memory = numbers(300)
    x, y, out = memory[:100], memory[100:200], memory[::-1][:100]  # one base
    expected = 3 * x + y
    axpy.forall(100)(3.0, x, y, out)
    np.testing.assert_array_equal(memory[::-1][:100], expected)
    far = np.zeros((100, 64), np.float32)
    axpy.forall(100)(3.0, x, y, far[:, 5])  # packed
    np.testing.assert_array_equal(far[:, 5], expected)
    assert not far[:, :5].any()
    assert not far[:, 6:].any()
    assert not any(heap.used for heap in slots.heaps())


def test_an_empty_array_beside_others_has_no_buffer(slots):
    slots.body = lambda config, named: None
    x, empty = kd.to_device(numbers(10)), kd.empty(0, np.float32)
    axpy[1, 32](1.0, x, empty, empty)
    assert slots.launches[0][2]["y.data"].size == 0


@pytest.mark.parametrize("order", ["C", "F"])
def test_host_copies_of_every_stride(slots, order):
    source = np.asarray(numbers(40, 30), order=order)
    array = kd.to_device(source)
    np.testing.assert_array_equal(array.copy_to_host(), source)
    for index in (np.s_[3:9], np.s_[:, 4], np.s_[::3, ::-2], np.s_[::-1], np.s_[5:6, 7:8]):
        np.testing.assert_array_equal(array[index].copy_to_host(), source[index])
        array[index].copy_from_host(-source[index])
        source[index] *= -1
        np.testing.assert_array_equal(array.copy_to_host(), source)
    array[2:30:7].fill(5)
    source[2:30:7] = 5
    array[:, 3].fill(-1)
    source[:, 3] = -1
    np.testing.assert_array_equal(array.copy_to_host(), source)


@pytest.mark.parametrize("peer", ["slots:0", "slots:1"])
def test_copies_on_a_device_and_to_another(slots, peer):
    source = numbers(60, 20)
    one, other = kd.to_device(source), kd.zeros((60, 20), np.float32, device=peer)
    kd.copy(other, one)
    np.testing.assert_array_equal(other.copy_to_host(), source)
    for index in (np.s_[10:20], np.s_[::2, ::3], np.s_[:, ::-1]):
        kd.copy(other[index], one[::-1][index])
        expected = other.copy_to_host()
        np.testing.assert_array_equal(expected[index], source[::-1][index])


@pytest.mark.parametrize("shift", [1, 3, 50, 99])
def test_overlapping_copies_read_the_source_as_it_was(slots, shift):
    source = numbers(100)
    for to, come_from in (
        (np.s_[shift:], np.s_[:-shift]),
        (np.s_[:-shift], np.s_[shift:]),
        (np.s_[:], np.s_[::-1]),
    ):
        array, expected = kd.to_device(source), source.copy()
        kd.copy(array[to], array[come_from])
        expected[to] = source[come_from]
        np.testing.assert_array_equal(array.copy_to_host(), expected)


def test_frees_out_of_order_give_offsets_out_again(slots):
    rng = np.random.default_rng(3)
    live = []
    for step in range(400):
        if live and rng.integers(3) == 0:
            live.pop(rng.integers(len(live)))
        else:
            values = rng.integers(0, 100, rng.integers(1, 3000)).astype(np.int32)
            live.append((kd.to_device(values), values))
        if step % 20 == 0:
            for array, values in live:
                np.testing.assert_array_equal(array.copy_to_host(), values)
    heaps = slots.heaps()
    assert len(heaps) > 1
    assert sum(len(heap.used) for heap in heaps) == len(live)
    locations = [array.location for array, _ in live]
    assert any(location.offset for location in locations)
    del live, array, values
    gc.collect()
    assert not any(heap.used for heap in heaps)
    kd.MemoryPool.default("slots").trim()
    assert slots.heaps() == []


def test_copies_that_need_not_wait_take_no_page_locked_memory(slots):
    source = numbers(50)
    array = kd.to_device(source)
    assert not array.device.shares_host_memory
    np.testing.assert_array_equal(array.copy_to_host(blocking=False), source)
    array.copy_from_host(-source, blocking=False)
    np.testing.assert_array_equal(array.copy_to_host(), -source)


def test_what_needs_an_address_says_that_there_is_none(slots):
    array = kd.zeros(10, np.float32)
    with pytest.raises(ArgumentTypeError, match="has no address"):
        array[2:].pointer
    for convert in (np.asarray, kd.DeviceArray.host_view):
        with pytest.raises(ArgumentTypeError):
            convert(array)
    with pytest.raises(BufferError):
        array.__dlpack_device__()
    assert not hasattr(array, "__cuda_array_interface__")


def test_overlap_of_arguments_is_told_by_buffer_and_offset(slots):
    slots.body = lambda config, named: None
    one, other = kd.zeros(1000, np.float32), kd.zeros(20_000, np.float32)
    assert one.location.buffer is not other.location.buffer
    for arrays, is_disjoint in (
        ((one[:100], one[100:200], one[200:300]), True),
        ((one[:100], other[:100], other[100:200]), True),
        ((one[:100], one[100:200], one[150:250]), False),
    ):
        request = axpy.forall(100)._dispatcher.request(
            axpy.forall(100)._shape, (1.0, *arrays), None
        )
        found = promises_of(request.binding.passed_arrays(), (100,), written={3})
        assert found.is_disjoint is is_disjoint


def test_locations_are_ordered_and_subtracted_in_a_buffer_alone():
    one, other = object(), object()
    start = BufferOffset(one, 8)
    assert start + 4 == BufferOffset(one, 12) != BufferOffset(other, 12)
    assert start < start + 1
    assert max(start, start + 1) == start + 1
    assert (start < BufferOffset(other, 0)) != (BufferOffset(other, 10**9) < start)
    with pytest.raises(ValueError, match="no number of bytes"):
        start - BufferOffset(other, 0)
    with pytest.raises(TypeError):
        int(start)


def test_a_layout_with_slots_packs_offsets_and_lists_buffers():
    kinds = parse_signature("float32[::1], int32, (float64[:, :], int8[::1])")
    layout = ParameterLayout(("x", "n", "pair"), kinds, has_slots=True)
    assert layout.slots == {0: 0, 3: 1, 8: 2}
    assert [layout.parameters[number].dtype for number in layout.slots] == ["offset"] * 3
    one, other = object(), object()
    pair = (BufferOffset(other, 512), 2, 3, 64, 8, 0, 0)
    packed = layout.pack(BufferOffset(one, 256), 7, -1, *pair)
    assert packed == SlotParameters(
        layout.packer.pack(256, 7, -1, 512, 2, 3, 64, 8, 0, 0), (one, other, None)
    )
    plain = ParameterLayout(("x", "n", "pair"), kinds)
    assert plain.slots == {}
    assert plain.nbytes == layout.nbytes
    assert type(plain.pack(256, 7, -1, 512, 2, 3, 64, 8, 0, 0)) is bytes


def test_a_launch_that_cannot_be_compiled_runs_on_the_cpu_over_copies(slots, monkeypatch):
    def fail(specialization):
        raise CompileError("no such code")

    monkeypatch.setattr(slots, "compile", fail)
    base = numbers(700)
    memory = kd.to_device(base)
    with pytest.warns(kd.FallbackWarning):
        never_compiled.forall(100)(2.0, memory[3:103], memory[200:100:-1], memory[300:500:2])
    expected = base.copy()
    expected[300:500:2] = 2 * base[3:103] + base[200:100:-1]
    np.testing.assert_allclose(memory.copy_to_host(), expected, rtol=1e-6)
