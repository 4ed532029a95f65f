"""Profiles on a GPU: times of its own clock, streams, copies, graphs, and the sum of a trace."""

from __future__ import annotations

import time

import numpy as np
import pytest

import kerneldsl as kd


@kd.kernel
def axpy(a, x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


@kd.kernel
def spins(rounds, out):
    i = kd.grid(1)
    value = out[i]
    for _ in range(rounds):
        value = value * 1.0000001 + 1e-9
    out[i] = value


def launches(profile: kd.Profile) -> list[kd.Activity]:
    return [each for each in profile.activities if each.kind == "launch"]


def test_launches_have_times_of_the_device_in_order() -> None:
    out = kd.zeros(256)
    spins.forall(256)(1000, out)
    kd.synchronize()
    with kd.profile() as p:
        for _ in range(20):
            spins.forall(256)(20_000, out)
    found = launches(p)
    assert len(found) == 20
    ends = 0
    for each in found:
        assert each.device == "cuda:0"
        assert each.stream == "default"
        assert not each.is_synchronous
        assert each.device_ns is not None
        assert each.device_ns > 0
        assert each.device_begin_ns is not None
        # One after the other; times of events are rounded to half a microsecond.
        assert each.device_begin_ns >= ends - 2000
        ends = each.device_begin_ns + each.device_ns


def test_launches_that_native_code_repeats_are_recorded_one_by_one() -> None:
    x, y, out = (kd.to_device(np.ones(1024, np.float32)) for _ in range(3))
    launch = axpy.forall(1024)
    for _ in range(200):
        launch(2.0, x, y, out)
    with kd.profile() as p:
        for _ in range(100):
            launch(2.0, x, y, out)
    assert len(launches(p)) == 100
    assert None not in [each.device_ns for each in launches(p)]


@pytest.mark.measures
def test_the_sum_of_a_trace_agrees_with_the_wall_clock() -> None:
    out = kd.zeros(256)
    spins.forall(256)(1000, out)
    kd.synchronize()
    shares_of_host, shares_of_device = [], []
    for _ in range(5):
        with kd.profile() as p:
            started = time.perf_counter_ns()
            for _ in range(20):
                spins.forall(256)(400_000, out)
            kd.synchronize()
            elapsed = time.perf_counter_ns() - started
        # The host waits while the device works, and both are recorded.
        shares_of_host.append(p.recorded_ns / elapsed)
        shares_of_device.append(sum(each.device_ns or 0 for each in launches(p)) / elapsed)
    assert 0.97 <= max(shares_of_host) <= 1.01
    assert 0.97 <= max(shares_of_device) <= 1.01


def test_copies_waits_and_allocations_are_recorded() -> None:
    host = np.ones(1 << 20, np.float32)
    stream = kd.Stream()
    event = kd.Event()
    with kd.profile() as p:
        array = kd.to_device(host)
        array.copy_to_host()
        kd.copy(kd.empty_like(array), array)
        array.fill(3)
        stream.record(event)
        event.synchronize()
        stream.synchronize()
        kd.synchronize("cuda:0")
    copies = [each for each in p.activities if each.kind == "copy"]
    assert [each.name for each in copies] == [
        "host to device",
        "device to host",
        "device to device",
        "fill",
    ]
    assert {each.nbytes for each in copies} == {host.nbytes}
    for each in copies:
        assert each.device_ns is not None
        assert each.device_ns > 0
    waits = [each.name for each in p.activities if each.kind == "wait"]
    assert waits == ["event", "stream", "device"]
    assert [each.nbytes for each in p.activities if each.kind == "allocation"] == [host.nbytes] * 2


def test_a_staged_launch_holds_its_copies() -> None:
    x, y, out = (np.ones(4096, np.float32) for _ in range(3))
    axpy.forall(4096)(2.0, x, y, out)
    with kd.profile() as p:
        axpy.forall(4096)(2.0, x, y, out)
    (launch,) = launches(p)
    inner = [each for each in p.activities if each.depth == 1]
    directions = [each.name for each in inner if each.kind == "copy"]
    assert directions == ["host to device"] * 3 + ["device to host"]
    assert sum(each.host_ns for each in inner) <= launch.host_ns
    assert launch.device_ns is not None


def test_streams_have_rows_of_their_own() -> None:
    streams = [kd.Stream() for _ in range(2)]
    arrays = [kd.zeros(256, stream=stream) for stream in streams]
    spins.forall(256)(10, arrays[0])
    with kd.profile() as p:
        for stream, array in zip(streams, arrays, strict=True):
            spins.forall(256, stream=stream)(1000, array)
    rows = p.summary("device", streams=True).rows
    found = {row.stream for row in rows if row.kind == "launch"}
    assert found == {f"{stream.handle:#x}" for stream in streams}


def test_a_graph_is_one_launch_and_what_it_records_has_no_time() -> None:
    stream = kd.Stream()
    out = kd.zeros(256, stream=stream)
    spins.forall(256, stream=stream)(10, out)
    stream.synchronize()
    with kd.profile() as p:
        with stream.capture() as graph:
            spins.forall(256)(20_000, out)
            spins.forall(256)(20_000, out)
        graph.launch(stream)
        stream.synchronize()
    captured, replayed = launches(p)[:2], launches(p)[2:]
    assert [each.device_ns for each in captured] == [None, None]
    (replay,) = replayed
    assert replay.name == "graph of 2 steps"
    assert replay.device_ns is not None
    assert replay.device_ns > 0


@pytest.mark.measures
def test_bytes_and_the_roof_are_those_of_the_device() -> None:
    n = 1 << 24
    x, y, out = (kd.to_device(np.ones(n, np.float32)) for _ in range(3))
    for _ in range(3):
        axpy.forall(n)(np.float32(2), x, y, out)
    with kd.profile() as p:
        for _ in range(10):
            axpy.forall(n)(np.float32(2), x, y, out)
    row = next(row for row in p.summary("device", work=True).rows if row.kind == "launch")
    assert row.nbytes == pytest.approx(10 * 12 * n)
    assert row.flops == pytest.approx(10 * 2 * n)  # a sum of float64, block by block
    assert row.roof_share is not None
    assert 0.3 < row.roof_share < 1.1
    assert row.bytes_per_s is not None
    assert row.bytes_per_s > 1e11


def test_a_failed_launch_is_recorded_and_profiling_goes_on() -> None:
    out = kd.zeros(256)
    spins.forall(256)(10, out)
    with kd.profile() as p:
        with pytest.raises(kd.LaunchConfigError):
            spins[1, 4096](10, out)
        spins.forall(256)(10, out)
    failed, right = launches(p)
    assert failed.failure == "LaunchConfigError"
    assert failed.device_ns is None
    assert right.failure == ""
    assert right.device_ns is not None


def test_cupti_times_the_kernel_alone() -> None:
    pytest.importorskip("cupti")
    out = kd.zeros(256)
    spins.forall(256)(1000, out)
    kd.synchronize()
    times = []
    for cupti in (False, True):
        with kd.profile(cupti=cupti) as p:
            for _ in range(20):
                spins.forall(256)(50_000, out)
        found = [each.device_ns for each in launches(p)]
        assert None not in found
        times.append(sorted(each for each in found if each is not None)[10])
    by_events, by_cupti = times
    assert 0.8 * by_events < by_cupti <= 1.02 * by_events
