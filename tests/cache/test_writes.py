"""Writes that fail or are killed at any step: an entry is there whole, or as it was before."""

from __future__ import annotations

import errno
import os
import random
import signal
import struct
import time
import warnings
from collections import Counter
from pathlib import Path

import pytest

from kerneldsl.cache.disk import DiskCache, counters
from kerneldsl.cache.room import evict
from kerneldsl.cache.settings import read_settings
from kerneldsl.cache.store import Store
from kerneldsl.errors import CacheWarning
from tests.cache.processes import needs_fork, run_in_child, start_child
from tests.cache.shims import (
    STEPS,
    die_after,
    die_before,
    die_halfway,
    fail_with,
    faulty,
    steps_of,
    take_little,
)
from tests.cache.trials import FACTOR, Trials, key_of, sections_of
from tests.support.extent import examples

KEY = key_of(0)
ERRORS = [
    getattr(errno, name)
    for name in ("ENOSPC", "EIO", "ESTALE", "EBUSY", "EACCES", "EDQUOT", "EMFILE", "EROFS")
    if hasattr(errno, name)
]
#: How many writes are killed at a random moment, at least.
RANDOM_WRITES = examples(1000, 250) * FACTOR


def step_count(store: Store) -> int:
    steps = steps_of(lambda: store.write(KEY, sections_of(KEY)))
    assert steps >= len(STEPS), "the steps of a write are no longer those that are known"
    return steps


@needs_fork
@pytest.mark.parametrize("is_there", [False, True], ids=["fresh", "over another"])
@pytest.mark.parametrize("act", [die_before, die_halfway, die_after])
def test_killed_at_each_step(store: Store, trials: Trials, act, is_there: bool) -> None:
    for step in range(step_count(store)):
        store.path_of(KEY).unlink(missing_ok=True)
        if is_there:
            store.write(KEY, sections_of(KEY))

        def write(step: int = step) -> None:
            with faulty(step, act):
                store.write(KEY, sections_of(KEY))

        assert run_in_child(write) == -signal.SIGKILL
        outcome = trials.read(store, KEY)
        assert outcome == "right" or (outcome == "miss: absent" and not is_there)
    trials.check(at_least=len(STEPS))


@needs_fork
def test_killed_at_random(store: Store, trials: Trials, tmp_path: Path) -> None:
    """Children write eight keys over and over, and each is killed somewhere."""
    count = tmp_path / "count"
    count.write_bytes(bytes(8))

    def write_for_ever() -> None:
        done = 0
        with count.open("r+b", buffering=0) as file:
            while True:
                key = key_of(done % 8)
                store.write(key, sections_of(key, random.randrange(10_000)))
                done += 1
                os.pwrite(file.fileno(), struct.pack("q", done), 0)

    writes = kills = 0
    deadline = time.monotonic() + 120 * FACTOR
    while writes < RANDOM_WRITES and time.monotonic() < deadline:
        child = start_child(write_for_ever)
        time.sleep(random.uniform(0.01, 0.12))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        writes += struct.unpack("q", count.read_bytes())[0]
        count.write_bytes(bytes(8))
        kills += 1
        for number in range(8):
            outcome = trials.read(store, key_of(number))
            assert outcome in ("right", "miss: absent"), outcome
    print(f"{writes} writes, {kills} kills")
    assert writes >= RANDOM_WRITES
    trials.check()


@needs_fork
def test_what_killed_writers_leave_behind_goes(store: Store) -> None:
    def write() -> None:
        with faulty(0, die_halfway, ("write",)):
            store.write(KEY, sections_of(KEY))

    run_in_child(write)
    (left,) = store.unfinished()
    evict(store, 2**30)
    assert store.unfinished(), "it may be written right now"
    for hours in (-2, 2):  # by a clock that was behind, or ahead
        stamp = time.time() + 3600 * hours
        os.utime(left.path, (stamp, stamp))
        evict(store, 2**30)
        assert not store.unfinished()
        left.path.write_bytes(b"again")


@pytest.mark.parametrize("number", ERRORS, ids=lambda n: errno.errorcode[n])
def test_each_step_fails(store: Store, cache: DiskCache, trials: Trials, number: int) -> None:
    """The program goes on, is warned once, and finds the old entry or the new one."""
    of_the_entry = step_count(store)
    cache.keep(KEY, sections_of(KEY))  # from now on there is an estimate
    steps = steps_of(lambda: cache.keep(KEY, sections_of(KEY)))
    assert steps > of_the_entry, "its size is counted"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step in range(steps):
            cache.keep(KEY, sections_of(KEY))
            with faulty(step, fail_with(number)) as shim:
                cache.keep(KEY, sections_of(KEY))
            assert shim.calls > step
            assert trials.look_up(cache, KEY) == "right"
            assert not store.unfinished(), f"step {step} left its file"
    assert sum(issubclass(w.category, CacheWarning) for w in caught) <= 1
    # To force a folder to the disk may be refused, and to close it: nothing was written to it.
    assert counters.read().failed_writes >= of_the_entry - 3
    trials.check(at_least=steps)


@pytest.mark.parametrize("name", ["open", "fstat", "read", "close", "utime"])
@pytest.mark.parametrize("number", ERRORS, ids=lambda n: errno.errorcode[n])
def test_reading_fails(cache: DiskCache, trials: Trials, name: str, number: int) -> None:
    cache.keep(KEY, sections_of(KEY))
    with faulty(0, fail_with(number), (name,)):
        trials.look_up(cache, KEY)
    assert trials.look_up(cache, KEY) == "right", "a passing error costs no entry"
    trials.check(at_least=2)


@pytest.mark.parametrize("name", ["scandir", "unlink"])
def test_making_room_fails(folder, monkeypatch, trials: Trials, name: str) -> None:
    monkeypatch.setenv("KERNELDSL_CACHE_SIZE", "2000")
    cache = DiskCache(read_settings())

    def refuse(*args: object, **options: object) -> None:
        raise OSError(errno.EIO, "input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, name, refuse)
        for number in range(20):
            assert cache.keep(key_of(number), sections_of(key_of(number)))
    for number in range(20):
        assert trials.look_up(cache, key_of(number)) == "right"
    trials.check()


def test_a_system_that_writes_little_at_a_time(store: Store, trials: Trials) -> None:
    for step in range(8):
        with faulty(step, take_little):
            store.write(KEY, sections_of(KEY))
        assert trials.read(store, KEY) == "right"
    trials.check()


@needs_fork
def test_a_file_may_not_grow(store: Store, trials: Trials) -> None:
    """The system itself cuts the write short: a real error, in the place of a full disk."""
    import resource

    store.write(KEY, sections_of(KEY))

    def write() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            cache = DiskCache(read_settings())
            for _ in range(3):
                assert not cache.keep(KEY, sections_of(KEY, 5000))
        assert Counter(w.category for w in caught) == {CacheWarning: 1}

    assert run_in_child(write) == 0
    assert trials.read(store, KEY) == "right"
    assert not store.unfinished()
    trials.check()


def test_it_is_never_read_back(store: Store) -> None:
    """A file system may show its writer what it will not show to others."""
    with faulty(-1, lambda: None, ("read",)) as shim:
        store.write(KEY, sections_of(KEY))
    assert shim.calls == 0
    with faulty(-1, lambda: None, ("open",)) as shim:
        store.write(KEY, sections_of(KEY))
    assert shim.calls == 3, "the two folders, and the file to write"


def test_an_entry_larger_than_the_cache_is_not_kept(monkeypatch, folder: Path) -> None:
    monkeypatch.setenv("KERNELDSL_CACHE_SIZE", "1k")
    cache = DiskCache(read_settings())
    assert not cache.keep(KEY, sections_of(KEY, 2000))
    assert not folder.exists()
    assert cache.keep(KEY, sections_of(KEY, 20))
