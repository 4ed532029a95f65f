"""What goes when the cache is full, whatever clocks and other files do."""

from __future__ import annotations

import os
import time

import pytest

from kerneldsl.cache import room as room_module
from kerneldsl.cache import store as store_module
from kerneldsl.cache.disk import DiskCache, counters
from kerneldsl.cache.room import evict
from kerneldsl.cache.settings import read_settings
from kerneldsl.cache.store import Store
from tests.cache.trials import Trials, key_of, sections_of

YEAR_S = 365 * 86400.0


def write(store: Store, number: int, used_s: float) -> None:
    key = key_of(number)
    store.write(key, sections_of(key, 900))
    os.utime(store.path_of(key), (used_s, used_s))


def left(store: Store, count: int) -> list[int]:
    return [n for n in range(count) if store.path_of(key_of(n)).exists()]


def test_the_oldest_goes_first(store: Store) -> None:
    now = time.time()
    for number, age in enumerate([50, 10, 40, 30, 20]):
        write(store, number, now - age)
    size = store.listed()[0].nbytes
    assert evict(store, 5 * size) == (0, 0, 5 * size)
    # To 0.9 of the cap, so that there is room.
    assert evict(store, 3 * size) == (3, 3 * size, 2 * size)
    assert left(store, 5) == [1, 4]


def test_reading_keeps_an_entry(store: Store) -> None:
    now = time.time()
    for number in range(3):
        write(store, number, now - 1000 + number)
    store.read(key_of(0))
    evict(store, int(1.5 * store.listed()[0].nbytes))
    assert left(store, 3) == [0]


def test_the_entry_just_written_stays(monkeypatch, trials: Trials) -> None:
    monkeypatch.setenv("KERNELDSL_CACHE_SIZE", "2500")
    cache = DiskCache(read_settings())
    for number in range(10):
        assert cache.keep(key_of(number), sections_of(key_of(number), 900))
        assert trials.look_up(cache, key_of(number)) == "right"
    assert cache.user is not None
    assert sum(each.nbytes for each in cache.user.listed()) <= 2500
    assert counters.read().evicted >= 7
    trials.check()


@pytest.mark.parametrize("jump_s", [-YEAR_S, YEAR_S, -7200, 7200])
def test_clocks_that_jump(monkeypatch, trials: Trials, jump_s: float) -> None:
    """The order may suffer; what is read does not, and the cap holds."""
    monkeypatch.setenv("KERNELDSL_CACHE_SIZE", "20k")
    cache = DiskCache(read_settings())
    store = cache.user
    assert store is not None
    real = time.time

    class Clock:
        offset = 0.0

        def time(self) -> float:
            return real() + self.offset

    clock = Clock()
    monkeypatch.setattr(store_module, "time", clock)
    monkeypatch.setattr(room_module, "time", clock)
    for number in range(200):
        clock.offset = jump_s if number % 3 else 0.0
        key = key_of(number % 40)
        assert cache.keep(key, sections_of(key, 900))
        stamp = clock.time()  # the file system's clock jumps with the system's
        os.utime(store.path_of(key), (stamp, stamp))
        assert trials.look_up(cache, key) == "right"
        trials.look_up(cache, key_of(number % 7))
        assert sum(each.nbytes for each in store.listed()) <= 20 * 1024
    trials.check(at_least=400)


def test_a_stamp_of_the_future_goes_first_unless_it_is_used(store: Store) -> None:
    now = time.time()
    write(store, 0, now + YEAR_S)
    write(store, 1, now + YEAR_S)
    write(store, 2, now - YEAR_S)
    store.read(key_of(0))
    assert store.path_of(key_of(0)).stat().st_mtime < now + 60
    evict(store, int(2.3 * store.listed()[0].nbytes))
    assert left(store, 3) == [0, 2]


def test_files_of_others_stop_nothing(store: Store, monkeypatch, trials: Trials) -> None:
    """One orphan file under a size cap has stopped every write of another cache."""
    monkeypatch.setenv("KERNELDSL_CACHE_SIZE", "3k")
    (store.folder.entries / "orphan").write_bytes(bytes(100_000))
    (store.folder.entries / "0123.kdc").write_bytes(bytes(100_000))
    (store.folder.entries / "a folder").mkdir()
    (store.folder.entries / ("f" * 64 + ".kdc")).mkdir()
    cache = DiskCache(read_settings())
    for number in range(20):
        assert cache.keep(key_of(number), sections_of(key_of(number), 900))
        assert trials.look_up(cache, key_of(number)) == "right"
    assert (store.folder.entries / "orphan").exists(), "it is not ours to remove"
    trials.check()


def test_what_is_put_aside_makes_room_first(store: Store) -> None:
    write(store, 0, time.time() - YEAR_S)
    store.path_of(key_of(1)).write_bytes(bytes(5000))
    with pytest.raises(Exception, match="magic"):
        store.read(key_of(1))
    evict(store, 3000)
    assert left(store, 1) == [0]
    assert not store.quarantined()


def test_a_folder_that_is_not_there(store: Store, folder) -> None:
    import shutil

    shutil.rmtree(folder)
    assert evict(store, 10) == (0, 0, 0)
    key = key_of(0)
    store.write(key, sections_of(key))
    assert store.read(key)
