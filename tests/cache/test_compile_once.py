"""Processes that miss one key at once: one compiles, and nobody waits for who cannot finish."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.cache import locks
from kerneldsl.cache.disk import DiskCache, counters, disk_cache
from kerneldsl.cache.folders import STATE
from kerneldsl.cache.settings import read_settings
from kerneldsl.launch import artifact
from kerneldsl.utilities import progress
from tests.cache.processes import needs_fork, needs_root, run_in_child, start_child
from tests.cache.programs import ROOT
from tests.cache.trials import key_of, sections_of
from tests.support.extent import full_beyond

pytest.importorskip("fcntl", reason="there are no locks here")
pytestmark = needs_fork
KEY = key_of(0)
PROGRAM = """
import numpy as np
import kerneldsl as kd

@kd.kernel
def axpy(a, x, y):
    i = kd.grid(1)
    if i < y.size:
        y[i] = a * x[i] + y[i]

x, y = np.arange(100.0), np.ones(100)
with kd.use("cpu"):
    axpy.forall(100)(2.0, x, y)
assert (y == 2 * x + 1).all()
print(kd.cache.stats().writes, kd.cache.stats().hits)
"""


@pytest.fixture(autouse=True)
def waits_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "_given_up", set())


#: Less than what waits, and more than a busy machine stops a process for.
_AT_ONCE_S = locks.COMPILATION_S / 2


def seconds_to_enter(cache: DiskCache, key=KEY) -> float:
    started = time.monotonic()
    with cache.compiling(key):
        return time.monotonic() - started


@contextlib.contextmanager
def held_elsewhere(work: Callable[[], object] = lambda: time.sleep(60)) -> Iterator[int]:
    """Run a child that has locked the key, and does some work then."""
    ready, tell = os.pipe()

    def hold() -> None:
        with DiskCache(read_settings()).compiling(KEY):
            os.write(tell, b".")
            work()

    child = start_child(hold)
    os.close(tell)
    assert os.read(ready, 1) == b"."
    os.close(ready)
    try:
        yield child
    finally:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


@pytest.fixture
def wait_until_waited_for(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], object]]:
    """What a child calls that goes on once this process waits for it."""
    hear, tell = os.pipe()
    take = locks._take

    def take_or_tell(file, byte):
        is_taken = take(file, byte)
        if not is_taken:
            os.write(tell, b".")
        return is_taken

    monkeypatch.setattr(locks, "_take", take_or_tell)
    yield lambda: os.read(hear, 1)
    os.close(hear)
    os.close(tell)


@pytest.mark.parametrize("count", full_beyond([4, 8], [4]))
def test_workers_on_an_empty_cache_compile_once(tmp_path: Path, count: int) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    workers = [
        subprocess.Popen(
            [sys.executable, str(script)], stdout=subprocess.PIPE, env=environment, text=True
        )
        for _ in range(count)
    ]
    said = [worker.communicate(timeout=120)[0].split() for worker in workers]
    assert all(worker.returncode == 0 for worker in workers)
    assert sorted(said) == [["0", "1"]] * (count - 1) + [["1", "0"]]


def test_who_waits_finds_what_was_compiled(cache: DiskCache, wait_until_waited_for) -> None:
    def compile_it() -> None:
        wait_until_waited_for()
        assert disk_cache().keep(KEY, sections_of(KEY))

    assert cache.look_up(KEY) is None
    with held_elsewhere(compile_it), cache.compiling(KEY) as found:
        assert found is not None
    assert counters.read().misses == {"absent": 1}
    assert counters.read().hits == 1


def test_who_waits_works_meanwhile(cache: DiskCache, wait_until_waited_for) -> None:
    called: list[str] = []
    with (
        held_elsewhere(wait_until_waited_for),
        cache.compiling(KEY, lambda: called.append("")),
    ):
        pass
    with cache.compiling(KEY, lambda: called.append("nobody compiles")):
        pass
    assert called == [""]


def test_who_waits_compiles_what_another_could_not(cache: DiskCache, wait_until_waited_for) -> None:
    with held_elsewhere(wait_until_waited_for), cache.compiling(KEY) as found:
        assert found is None


def test_another_key_is_not_waited_for(cache: DiskCache) -> None:
    with held_elsewhere():
        assert seconds_to_enter(cache, key_of(1)) < _AT_ONCE_S


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_that_died_is_not_waited_for(cache: DiskCache, number: int) -> None:
    with held_elsewhere() as child:
        os.kill(child, number)
        os.waitpid(child, 0)
        assert seconds_to_enter(cache) < _AT_ONCE_S


def test_the_child_of_one_that_died_is_not_waited_for(cache: DiskCache, tmp_path: Path) -> None:
    """It has inherited what its parent had open, and lives on."""
    number = tmp_path / "number"

    def fork_and_die() -> None:
        number.write_text(str(start_child(lambda: time.sleep(60))))
        os.kill(os.getpid(), signal.SIGKILL)

    with held_elsewhere(fork_and_die) as child:
        os.waitpid(child, 0)
        orphan = int(number.read_text())
        try:
            assert seconds_to_enter(cache) < _AT_ONCE_S
        finally:
            os.kill(orphan, signal.SIGKILL)


def test_one_that_is_stopped_is_waited_for_once(cache: DiskCache, monkeypatch) -> None:
    monkeypatch.setattr(locks, "COMPILATION_S", 0.4)
    with held_elsewhere() as child:
        os.kill(child, signal.SIGSTOP)
        assert 0.4 <= seconds_to_enter(cache) < _AT_ONCE_S
        monkeypatch.setattr(locks, "COMPILATION_S", 2 * _AT_ONCE_S)
        assert seconds_to_enter(cache) < _AT_ONCE_S
        assert seconds_to_enter(DiskCache(read_settings())) < _AT_ONCE_S


def test_a_waiting_process_can_be_interrupted(cache: DiskCache, monkeypatch) -> None:
    take, sent = locks._take, []

    def take_or_send(file, byte):
        is_taken = take(file, byte)
        if not (is_taken or sent):  # from now on this thread sleeps between two looks
            sent.append(threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)))
            sent[0].start()
        return is_taken

    monkeypatch.setattr(locks, "_take", take_or_send)
    with held_elsewhere():
        started = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            seconds_to_enter(cache)
        assert time.monotonic() - started < _AT_ONCE_S
        assert not locks._files


def test_two_keys_in_two_orders_are_no_deadlock(cache: DiskCache) -> None:
    """Who holds one waits for no other."""

    def take_the_other() -> None:
        time.sleep(0.2)
        assert seconds_to_enter(disk_cache(), key_of(1)) < _AT_ONCE_S

    with held_elsewhere(take_the_other) as child, cache.compiling(key_of(1)):
        assert seconds_to_enter(cache) < _AT_ONCE_S
        assert os.waitpid(child, 0)[1] == 0


def test_threads_take_turns(cache: DiskCache) -> None:
    inside = most = 0

    def work() -> None:
        nonlocal inside, most
        with cache.compiling(KEY):
            inside += 1
            most = max(most, inside)
            time.sleep(0.01)
            inside -= 1

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


def test_one_thread_gives_back_no_lock_of_another(cache: DiskCache) -> None:
    """Closing the file would give back every lock of the process."""
    with cache.compiling(KEY):
        thread = threading.Thread(target=lambda: seconds_to_enter(cache, key_of(1)))
        thread.start()
        thread.join()
        assert cache.keep(key_of(2), sections_of(key_of(2)))  # locks the size

        def is_locked() -> None:
            import fcntl

            byte = 1 + int(KEY.digest[:15], 16)
            with (cache.user.folder.path / STATE / "lock").open("r+") as file:  # type: ignore[union-attr]
                with pytest.raises(BlockingIOError):
                    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                with pytest.raises(BlockingIOError):
                    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)

        assert run_in_child(is_locked) == 0


def test_a_forked_child_holds_nothing_and_waits(cache: DiskCache, monkeypatch) -> None:
    monkeypatch.setattr(locks, "COMPILATION_S", 0.3)
    with cache.compiling(KEY):

        def wait() -> None:
            assert 0.3 <= seconds_to_enter(cache) < _AT_ONCE_S

        assert run_in_child(wait) == 0
        # The child has closed the file, which is nothing to its parent.
        assert run_in_child(wait) == 0
    monkeypatch.setattr(locks, "COMPILATION_S", 2 * _AT_ONCE_S)
    assert seconds_to_enter(cache) < _AT_ONCE_S


def test_nothing_stays_open(cache: DiskCache) -> None:
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("nothing says what is open")
    cache.keep(key_of(1), sections_of(key_of(1)))
    before = os.listdir("/proc/self/fd")
    for number in range(5):
        with cache.compiling(key_of(number)), contextlib.suppress(ValueError):
            assert cache.keep(key_of(number), sections_of(key_of(number)))
            raise ValueError
    with held_elsewhere(lambda: time.sleep(0.2)):
        seconds_to_enter(cache)
    assert set(os.listdir("/proc/self/fd")) <= set(before)  # what others have left may go
    assert not locks._files


def test_where_nothing_can_be_locked_nobody_waits(cache: DiskCache, monkeypatch) -> None:
    import errno
    import fcntl

    def refuse(*args: object) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(fcntl, "lockf", refuse)
    assert seconds_to_enter(cache) < _AT_ONCE_S
    assert cache.keep(KEY, sections_of(KEY))
    monkeypatch.setitem(sys.modules, "fcntl", None)  # Windows
    assert seconds_to_enter(cache) < _AT_ONCE_S
    assert cache.keep(KEY, sections_of(KEY))
    assert not locks._files


def test_a_cache_that_is_only_read_is_not_waited_for(cache: DiskCache, monkeypatch) -> None:
    with held_elsewhere():
        cache.user = None
        assert seconds_to_enter(cache) < _AT_ONCE_S


def test_waiting_is_shown_as_compiling_is(cache: DiskCache, monkeypatch) -> None:
    shown: list[str] = []

    class Line:
        show = staticmethod(shown.append)

        def close(self) -> None:
            shown.append("closed")

    take = locks._take

    def take_late(file, byte):
        return bool(shown) and take(file, byte)

    monkeypatch.setattr(progress, "_line", Line)
    monkeypatch.setattr(locks, "_take", take_late)
    compile_it = artifact._compile

    def compile_and_tell(*args):
        shown.append("compiled")
        return compile_it(*args)

    monkeypatch.setattr(artifact, "_compile", compile_and_tell)
    with kd.use("cpu"):
        kd.kernel(_scale).forall(4)(np.arange(4.0))
    assert shown[0].startswith("compiling _scale(")
    assert shown[-1] == "closed"
    assert shown.index("compiled") > 0, "it was shown while another process was waited for"


@needs_root
@pytest.mark.parametrize("mode", [0o2770, 0o777, 0o700])
def test_who_shares_a_folder_can_lock_in_it(folder: Path, tmp_path, monkeypatch, mode) -> None:
    (tmp_path / "secret").write_bytes(b"a secret of those who share a folder")
    (tmp_path / "secret").chmod(0o600)
    monkeypatch.setenv("KERNELDSL_CACHE_KEY_FILE", str(tmp_path / "secret"))
    monkeypatch.setenv("KERNELDSL_CACHE_SHARED", "1")
    folder.mkdir()
    folder.chmod(mode)
    before = os.umask(0o077)
    try:
        seconds_to_enter(DiskCache(read_settings()))
        file = folder / STATE / "lock"
        assert file.stat().st_mode & 0o777 == mode & 0o666
        # What is there already may be a hard link of somebody's file.
        file.unlink()
        (tmp_path / "mine").write_text("mine")
        os.link(tmp_path / "mine", file)
        seconds_to_enter(DiskCache(read_settings()))
        assert file.stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(before)


def test_a_warm_start_locks_nothing(cache: DiskCache, monkeypatch) -> None:
    with kd.use("cpu"):
        scale, x = kd.kernel(_scale), np.arange(4.0)
        scale.forall(4)(x)
        monkeypatch.setattr(locks, "_take", None)
        again = kd.kernel(_scale)
        again.forall(4)(x)
    assert counters.read().hits == 1
    assert x.tolist() == [0, 4, 8, 12]


def _scale(x):
    i = kd.grid(1)
    x[i] = x[i] * 2
