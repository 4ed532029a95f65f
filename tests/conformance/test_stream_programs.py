"""Generated programs over several streams: recorded or not, they compute what their order says."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from tests.support.extent import examples

N = 257
STREAMS, ARRAYS = 3, 4

#: Stream, array that is read, array that is written, factor.
_Launch: TypeAlias = tuple[int, int, int, int]

_programs = st.lists(
    st.tuples(
        st.integers(0, STREAMS - 1),
        st.integers(0, ARRAYS - 1),
        st.integers(0, ARRAYS - 1),
        st.integers(-3, 3),
    ),
    min_size=1,
    max_size=15,
)


@kd.kernel
def mixes(factor, x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = (factor * out[i] + x[i] + i) % 1009


def _expected(program: list[_Launch], repetitions: int) -> list[np.ndarray]:
    index = np.arange(N)
    arrays = [np.full(N, k + 1) for k in range(ARRAYS)]
    for _ in range(repetitions):
        for _, read, written, factor in program:
            arrays[written] = (factor * arrays[written] + arrays[read] + index) % 1009
    return arrays


def _run(program: list[_Launch], streams: list[kd.Stream], arrays: list[kd.DeviceArray]) -> None:
    """Put the launches into their streams, each after those whose arrays it shares."""
    users: list[set[int]] = [set() for _ in range(ARRAYS)]
    for at, read, written, factor in program:
        for earlier in (users[read] | users[written]) - {at}:
            streams[at].wait(streams[earlier])
        mixes.forall(N, stream=streams[at])(factor, arrays[read], arrays[written])
        users[read].add(at)
        users[written].add(at)


@settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(program=_programs, repetitions=st.integers(1, 3))
def test_a_program_gives_the_same_recorded_and_run(
    computing_target: str, program: list[_Launch], repetitions: int
) -> None:
    expected = _expected(program, repetitions)
    with kd.use(computing_target):
        streams = [kd.Stream(blocking=False) for _ in range(STREAMS)]
        run, recorded = ([kd.full(N, k + 1) for k in range(ARRAYS)] for _ in range(2))
        kd.synchronize()
        for _ in range(repetitions):
            _run(program, streams, run)
            for stream in streams:
                streams[0].wait(stream)
            for stream in streams:
                stream.wait(streams[0])
        with streams[0].capture() as graph:
            fork = streams[0].record()
            for stream in streams[1:]:
                stream.wait(fork)
            _run(program, streams, recorded)
            for stream in streams[1:]:
                streams[0].wait(stream)
        assert graph.node_count == len(program)
        for turn in range(repetitions):
            graph.launch(streams[turn % STREAMS])
            streams[(turn + 1) % STREAMS].wait(streams[turn % STREAMS])
        for stream in streams:
            stream.synchronize()
        for name, arrays in (("run", run), ("recorded", recorded)):
            for found, wanted in zip(arrays, expected, strict=True):
                np.testing.assert_array_equal(found.copy_to_host(), wanted, err_msg=name)


@settings(max_examples=examples(300), deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["launch", "wait"]), st.integers(0, 2), st.integers(0, 2)),
        max_size=12,
    )
)
def test_a_recording_takes_what_its_first_stream_waits_for(
    steps: list[tuple[str, int, int]],
) -> None:
    """Against a model in which each stream has the set of launches that it comes after."""
    before: list[set[int]] = [set() for _ in range(3)]
    for serial, (step, at, other) in enumerate(steps):
        before[at] |= {serial} if step == "launch" else before[other]

    def record() -> kd.Graph:
        streams, x = [kd.Stream() for _ in range(3)], kd.zeros(N)
        with streams[0].capture() as graph:
            for other in streams[1:]:
                other.wait(streams[0])
            for step, at, other in steps:
                if step == "launch":
                    mixes.forall(N, stream=streams[at])(1, x, x)
                else:
                    streams[at].wait(streams[other])
        return graph

    with kd.use("null"):
        if before[0] == set().union(*before):
            assert record().node_count == len(before[0])
        else:
            with pytest.raises(kd.GraphError, match="UNJOINED"):
                record()


_steps = st.lists(
    st.one_of(
        st.tuples(st.just("hold"), st.integers(0, 2), st.just(0)),
        st.tuples(st.just("release"), st.integers(0, 2), st.just(0)),
        st.tuples(st.just("record"), st.integers(0, 2), st.integers(0, 2)),
        st.tuples(st.just("wait"), st.integers(0, 2), st.integers(0, 2)),
    ),
    max_size=30,
)


@settings(max_examples=examples(300), deadline=None)
@given(steps=_steps)
def test_what_waits_for_work_that_is_held_up_is_not_done(
    steps: list[tuple[str, int, int]],
) -> None:
    """Against a model in which each stream and event has the set of held work that it waits for."""
    with kd.use("null"):
        streams, events = [kd.Stream() for _ in range(3)], [kd.Event() for _ in range(3)]
        holds: dict[int, tuple[object, int]] = {}
        waits: list[set[int]] = [set() for _ in range(3)]
        marks: list[set[int]] = [set() for _ in range(3)]
        released: set[int] = set()
        for serial, (step, at, event) in enumerate(steps):
            if step == "hold" and at not in holds:
                holds[at] = (streams[at]._stream.held(), serial)
                waits[at].add(serial)
            elif step == "release" and at in holds:
                held, began = holds.pop(at)
                held.close()
                released.add(began)
            elif step == "record":
                streams[at].record(events[event])
                marks[event] = set(waits[at])
            elif step == "wait":
                streams[at].wait(events[event])
                waits[at] |= marks[event]
            for stream, pending in zip(streams, waits, strict=True):
                assert stream.query() == (not pending - released)
            for each, pending in zip(events, marks, strict=True):
                assert each.query() == (not pending - released)
        for held, _ in holds.values():
            held.close()
