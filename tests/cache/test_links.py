"""Links, pipes, devices and foreign names in a shared cache: nothing outside of it is touched.

Whoever may write to a shared folder, without the secret, can put anything in the place of anything.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import stat
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kerneldsl import cache as face
from kerneldsl.cache import room
from kerneldsl.cache.disk import DiskCache
from kerneldsl.cache.folders import ENTRIES, QUARANTINE, STATE
from kerneldsl.cache.settings import read_settings
from kerneldsl.cache.store import Store
from kerneldsl.errors import CacheError
from tests.cache.processes import NOBODY, needs_fork, needs_root, start_child
from tests.cache.trials import FACTOR, key_of, sections_of

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no such files here")
KEY = key_of(0)
FOLDERS = (ENTRIES, QUARANTINE, STATE)


@pytest.fixture
def shared(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A shared, signed cache with an entry, a file that was put aside, and what else it makes."""
    secret = tmp_path / "secret"
    secret.write_bytes(b"a secret of those who share a folder")
    secret.chmod(0o600)
    monkeypatch.setenv("KERNELDSL_CACHE_KEY_FILE", str(secret))
    monkeypatch.setenv("KERNELDSL_CACHE_SHARED", "1")
    folder.mkdir()
    folder.chmod(0o2777)
    store = user_store()
    damage(store, 1)
    assert DiskCache(read_settings()).look_up(key_of(1)) is None
    assert DiskCache(read_settings()).keep(KEY, sections_of(KEY))
    assert [each.name for each in sorted(folder.iterdir())] == sorted(FOLDERS)
    return folder


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    """Somebody's files, some of which are called as those of a cache are."""
    made = tmp_path / "documents"
    made.mkdir(mode=0o750)
    digest = "0123456789abcdef" * 4
    ours = [f"{digest[number:] + digest[:number]}.kdc" for number in range(20)]
    names = [f"chapter{number}.txt" for number in range(20)]
    temporary = ".writing-1-0123456789abcdef"
    for name in (*names, *ours, *(f"{each}.length" for each in ours), temporary, "size", "lock"):
        (made / name).write_text("thesis")
        os.utime(made / name, (1e9, 1e9))
    (made / store_name(KEY)).write_text("thesis")
    return made


@pytest.fixture(autouse=True)
def in_time() -> Iterator[None]:
    """Whoever opens a pipe carelessly waits for ever."""

    def give_up(*args: object) -> None:
        raise TimeoutError("something waits")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def store_name(key) -> str:
    return f"{key.digest}.kdc"


def user_store() -> Store:
    made = DiskCache(read_settings())
    assert made.user is not None
    return made.user


def damage(store: Store, number: int) -> None:
    folder = store.folder.entries
    folder.mkdir(mode=0o777, exist_ok=True)
    (folder / store_name(key_of(number))).write_bytes(b"damaged")


def snapshot(folder: Path) -> dict[str, object]:
    found: dict[str, object] = {"": stat.S_IMODE(folder.stat().st_mode)}
    for path in folder.iterdir():
        status = path.lstat()
        found[path.name] = (status.st_mtime_ns, status.st_mode, path.read_bytes())
    return found


def use_everything(tmp_path: Path, made: DiskCache) -> None:
    """Do whatever is done with a cache; only a `CacheError` may come of it.

    `made` is the cache of a long process, from before anything was planted.
    """
    calls: list[Callable[[DiskCache], object]] = [
        lambda cache: [cache.look_up(key_of(number)) for number in range(3)],
        lambda cache: [cache.keep(key_of(n), sections_of(key_of(n))) for n in range(3)],
        lambda cache: cache.compiling(key_of(7)).__enter__(),
        lambda cache: cache.user and room.evict(cache.user, 0),
        lambda cache: cache.user and room.evict_and_note(cache.user, 100),
        lambda cache: face.export(tmp_path / "exported.tar"),
        lambda cache: face.import_(tmp_path / "exported.tar"),
        lambda cache: face.entries(),
        lambda cache: face.verify(),
        lambda cache: face.prune(0),
        lambda cache: face.clear(),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for cache in (made, DiskCache(read_settings())):
            for call in calls:
                try:
                    call(cache)
                except CacheError:
                    continue


def plant(path: Path, kind: str, victim: Path) -> None:
    """Put something in the place of a file or folder."""
    if path.is_dir() and not path.is_symlink():
        path.rename(path.with_name(f"{path.name}-{random.random()}"))
    else:
        path.unlink(missing_ok=True)
    if kind == "link":
        path.symlink_to(victim)
    elif kind == "relative link":
        path.symlink_to(os.path.relpath(victim, path.parent))
    elif kind == "link to nothing":
        path.symlink_to(victim.parent / "nothing")
    elif kind == "hard link":
        os.link(victim, path)
    elif kind == "pipe":
        os.mkfifo(path, 0o666)
    elif kind == "socket":
        short = os.open(path.parent, os.O_RDONLY)  # the path of a socket is short
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(f"/proc/self/fd/{short}/{path.name}")
        os.close(short)
    elif kind == "device":
        if os.geteuid() != 0:
            pytest.skip("only root makes devices")
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 5))  # zeros without end
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_bytes(b"a file")


KINDS = ("link", "relative link", "link to nothing", "pipe", "socket", "device", "folder", "file")


@pytest.mark.parametrize("name", FOLDERS)
@pytest.mark.parametrize("kind", KINDS)
def test_in_the_place_of_a_folder(shared, documents, tmp_path, name: str, kind: str) -> None:
    before = snapshot(documents)
    face.export(tmp_path / "exported.tar")
    made = DiskCache(read_settings())
    damage(user_store(), 2)
    plant(shared / name, kind, documents)
    use_everything(tmp_path, made)
    assert snapshot(documents) == before
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize(
    "name",
    [
        f"{STATE}/size",
        f"{STATE}/lock",
        f"{ENTRIES}/{store_name(KEY)}",
        f"{ENTRIES}/.writing-1-0123456789abcdef",
        f"{QUARANTINE}/{store_name(key_of(1))}.length",
    ],
)
@pytest.mark.parametrize("kind", [*KINDS, "hard link"])
def test_in_the_place_of_a_file(shared, documents, tmp_path, name: str, kind: str) -> None:
    before = snapshot(documents)
    face.export(tmp_path / "exported.tar")
    made = DiskCache(read_settings())
    plant(shared / name, kind, documents / "chapter1.txt")
    use_everything(tmp_path, made)
    assert snapshot(documents) == before
    assert not (documents / "nothing").exists()


@pytest.mark.parametrize("name", FOLDERS)
@needs_fork
def test_a_folder_that_is_exchanged_for_a_link_over_and_over(
    shared, documents, tmp_path, name: str
) -> None:
    """Between a check and the use of what was checked, at any moment."""
    before = snapshot(documents)
    made = DiskCache(read_settings())

    def exchange() -> None:
        real, aside = shared / name, shared / "aside"
        entries = aside if name == ENTRIES else shared / ENTRIES
        while True:
            try:
                real.rename(aside)
                real.symlink_to(documents)
                for number in range(3):
                    (entries / store_name(key_of(number))).write_bytes(b"damaged")
                real.unlink()
                aside.rename(real)
            except OSError:  # the cache has made one meanwhile
                if aside.exists() and real.is_dir() and not real.is_symlink():
                    aside.rename(shared / f"old-{random.random()}")
            time.sleep(random.uniform(0, 0.0003))

    child = start_child(exchange)
    try:
        end = time.monotonic() + 1.5 * FACTOR
        while time.monotonic() < end:
            use_everything(tmp_path, made)
            for number in range(3):
                made.look_up(key_of(number))
            assert snapshot(documents) == before
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert snapshot(documents) == before


@pytest.mark.parametrize("name", FOLDERS)
def test_names_that_are_not_ours_stay(shared: Path, name: str) -> None:
    digest = "a" * 64
    names = ["notes.txt", f"{digest}.kdc.txt/..", f"{digest}.KDC", f"{digest[1:]}.kdc", ".writing-"]
    names += [f"{digest}.kdc.length.txt", f"x{digest}.kdc", f"{digest}.kdc\n", ".writing-1-mine"]
    names += [f"{digest}.kdc.LENGTH", f".writing-1-{digest}", "size.old", "lock.txt"]
    planted = [shared / name / each for each in names if "/" not in each]
    for path in planted:
        path.write_text("mine")
        os.utime(path, (1, 1))
    user = user_store()
    for number in range(30):  # more than the quarantine holds
        damage(user, number)
        assert DiskCache(read_settings()).look_up(key_of(number)) is None
    face.prune(0)
    face.clear()
    assert [path.read_text() for path in planted] == ["mine"] * len(planted)


def test_what_is_put_aside_is_a_link_itself(shared: Path, documents: Path) -> None:
    before = snapshot(documents)
    (shared / ENTRIES / store_name(KEY)).unlink()
    (shared / ENTRIES / store_name(KEY)).symlink_to(documents / "chapter1.txt")
    assert DiskCache(read_settings()).look_up(KEY) is None
    aside = shared / QUARANTINE / f"{store_name(KEY)}.kind"
    assert aside.is_symlink()
    face.clear()
    assert not aside.is_symlink()
    assert snapshot(documents) == before


def test_the_time_stamp_of_another_file_is_not_renewed(shared: Path, documents: Path) -> None:
    """An entry is a hard link for once: it is read, and what it is stays as it was."""
    os.link(documents / "chapter1.txt", shared / ENTRIES / store_name(key_of(5)))
    assert DiskCache(read_settings()).look_up(key_of(5)) is None
    assert (documents / "chapter1.txt").stat().st_mtime == 1e9


@needs_root
@pytest.mark.parametrize("shares", ["1", "0"])
def test_a_link_of_somebody_else_to_the_folder_itself(
    shared: Path, documents: Path, tmp_path: Path, monkeypatch, shares: str
) -> None:
    before = snapshot(documents)
    monkeypatch.setenv("KERNELDSL_CACHE_SHARED", shares)
    (tmp_path / "around").mkdir()
    link = tmp_path / "around" / "link"
    link.symlink_to(documents)
    monkeypatch.setenv("KERNELDSL_CACHE_DIR", str(link))
    if shares == "1":
        assert DiskCache(read_settings()).user is not None, "one's own may lead anywhere"
    os.lchown(link, NOBODY, NOBODY)
    if shares == "1":
        assert DiskCache(read_settings()).user is not None, "nobody else can make links there"
    link.parent.chmod(0o1777)
    with pytest.warns(UserWarning, match="symbolic link of user 65534"):
        made = DiskCache(read_settings())
    assert made.user is None
    use_everything(tmp_path, made)
    assert snapshot(documents) == before


def test_without_descriptors_links_are_refused(shared, documents, tmp_path, monkeypatch) -> None:
    """As on Windows, where a folder has no descriptor and each name is looked at first."""
    from kerneldsl.cache import directory

    monkeypatch.setattr(directory, "_HAS_DESCRIPTORS", False)
    assert DiskCache(read_settings()).keep(KEY, sections_of(KEY))
    assert DiskCache(read_settings()).look_up(KEY) is not None
    before = snapshot(documents)
    made = DiskCache(read_settings())
    for name in FOLDERS:
        plant(shared / name, "link", documents)
        use_everything(tmp_path, made)
        assert snapshot(documents) == before
        (shared / name).unlink()
    assert DiskCache(read_settings()).keep(KEY, sections_of(KEY))
    assert face.clear() == 1
