"""Many processes and threads on one folder, with a cap that keeps them from keeping anything."""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

from kerneldsl.cache.disk import DiskCache, disk_cache
from kerneldsl.cache.settings import read_settings
from kerneldsl.cache.store import Store
from tests.cache.processes import needs_fork, run_in_child, start_child
from tests.cache.trials import FACTOR, Trials, key_of, sections_of

pytestmark = needs_fork
KEYS = 8
WRITERS = 16


def in_children(count: int, folder: Path, work: Callable[[Trials], None]) -> Trials:
    """Do some work in many children at once, and add up what they counted."""
    children = []
    for number in range(count):

        def count_and_tell(number: int = number) -> None:
            random.seed(number)
            counted = Trials()
            work(counted)
            (folder / f"counts-{number}").write_text(json.dumps(counted.counts))

        children.append(start_child(count_and_tell))
    everything = Trials()
    for child in children:
        _, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status) != 0:
            everything.note("crash")
    for file in folder.glob("counts-*"):
        everything.add(json.loads(file.read_text()))
    return everything


def test_sixteen_writers_of_eight_keys(
    store: Store, cache: DiskCache, trials: Trials, tmp_path: Path
) -> None:
    def work(counted: Trials) -> None:
        for _ in range(25 * FACTOR):
            key = key_of(random.randrange(KEYS))
            cache.keep(key, sections_of(key, random.randrange(20_000)))
            counted.look_up(cache, key_of(random.randrange(KEYS)))

    found = in_children(WRITERS, tmp_path, work)
    trials.add(found.counts)
    for number in range(KEYS):
        assert trials.look_up(cache, key_of(number)) == "right"
    assert len(store.listed()) == KEYS
    assert not store.unfinished()
    assert not store.quarantined(), "nobody saw half an entry"
    trials.check(at_least=WRITERS * 25)


def test_eviction_while_others_read(trials: Trials, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("KERNELDSL_CACHE_SIZE", "60k")
    cache = DiskCache(read_settings())

    def work(counted: Trials) -> None:
        for _ in range(60 * FACTOR):
            key = key_of(random.randrange(20))
            if random.random() < 0.3:
                cache.keep(key, sections_of(key, 10_000))
            counted.look_up(cache, key)

    found = in_children(8, tmp_path, work)
    trials.add(found.counts)
    assert cache.user is not None
    # Each of the eight may have put its last entry behind the others' last look.
    assert sum(each.nbytes for each in cache.user.listed()) <= 60 * 1024 + 8 * 10_500
    assert found.counts["right"] > 0
    trials.check(at_least=8 * 60)


def test_clearing_while_others_write(store: Store, cache: DiskCache, trials, tmp_path) -> None:
    from kerneldsl import cache as face

    def work(counted: Trials) -> None:
        for number in range(40):
            key = key_of(random.randrange(KEYS))
            if number % 8 == 7:
                face.clear()
                face.verify()
            cache.keep(key, sections_of(key))
            counted.look_up(cache, key)

    found = in_children(4, tmp_path, work)
    trials.add(found.counts)
    assert not store.quarantined()
    trials.check(at_least=160)


def test_threads(cache: DiskCache, trials: Trials) -> None:
    def work() -> None:
        for _ in range(30):
            key = key_of(random.randrange(KEYS))
            cache.keep(key, sections_of(key))
            trials.look_up(cache, key)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    trials.check(at_least=240)
    assert trials.counts["right"] == 240


def test_a_fork_while_threads_use_the_cache(trials: Trials) -> None:
    """The child finds every lock open, and writes under names of its own."""
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            key = key_of(random.randrange(KEYS))
            disk_cache().keep(key, sections_of(key))
            disk_cache().look_up(key)

    def in_child() -> None:
        counted = Trials()
        for number in range(KEYS):
            key = key_of(number)
            assert disk_cache().keep(key, sections_of(key))
            assert counted.look_up(disk_cache(), key) == "right"

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10 * FACTOR):
            time.sleep(random.uniform(0, 0.02))
            assert run_in_child(in_child) == 0
            trials.note("right")
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    for number in range(KEYS):
        trials.look_up(disk_cache(), key_of(number))
    trials.check()
