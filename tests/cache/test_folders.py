"""Which folders are taken, which are refused, and what a process without rights gets."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from kerneldsl import cache as face
from kerneldsl.cache.disk import DiskCache, counters
from kerneldsl.cache.entry import encode
from kerneldsl.cache.settings import read_settings
from kerneldsl.cache.store import Store
from kerneldsl.errors import CacheError, CacheWarning
from tests.cache.processes import NOBODY, needs_fork, needs_root, run_in_child
from tests.cache.trials import Trials, key_of, sections_of

KEY = key_of(0)
posix = pytest.mark.skipif(not hasattr(os, "getuid"), reason="files have no owners here")


def new_cache() -> tuple[DiskCache, list[str]]:
    """A cache under the settings as they are, and what it warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = DiskCache(read_settings())
    return made, [str(w.message) for w in caught if w.category is CacheWarning]


def refused_with(*words: str) -> None:
    cache, said = new_cache()
    assert cache.user is None
    assert not cache.keep(KEY, sections_of(KEY))
    assert cache.look_up(KEY) is None
    (message,) = said
    for word in words:
        assert word in message
    with pytest.raises(CacheError):
        face.clear()


@pytest.fixture
def secret(tmp_path: Path, monkeypatch) -> bytes:
    """What entries are signed with, in a file that root and somebody without rights can read."""
    key_file = tmp_path / "secret"
    key_file.write_bytes(b"a secret of those who share a folder")
    key_file.chmod(0o600)
    if hasattr(os, "getuid") and os.getuid() == 0:
        os.chown(key_file, NOBODY, NOBODY)
    monkeypatch.setenv("KERNELDSL_CACHE_KEY_FILE", str(key_file))
    return key_file.read_bytes()


@posix
def test_what_is_made_is_private(folder: Path, cache: DiskCache) -> None:
    old = os.umask(0)
    try:
        cache.keep(KEY, sections_of(KEY))
    finally:
        os.umask(old)
    assert cache.user is not None
    for made in (folder, folder / "entries"):
        assert stat.S_IMODE(made.stat().st_mode) == 0o700
    assert stat.S_IMODE(cache.user.path_of(KEY).stat().st_mode) == 0o600


@posix
@pytest.mark.parametrize("name", [".", "entries"])
@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777])
def test_a_folder_that_others_can_write_to(store, folder, monkeypatch, secret, name, mode) -> None:
    Store(store.folder, secret).write(KEY, sections_of(KEY))
    (folder / name).chmod(mode)
    refused_with("written to by others", f"{mode:04o}", "chmod go-w", "KERNELDSL_CACHE_SHARED")
    monkeypatch.setenv("KERNELDSL_CACHE_SHARED", "1")
    cache, said = new_cache()
    assert said == []
    assert cache.look_up(KEY) is not None
    assert cache.keep(KEY, sections_of(KEY))
    # By somebody who does not know the secret.
    store.path_of(KEY).write_bytes(encode(KEY.encoded, sections_of(KEY)))
    assert cache.look_up(KEY) is None
    monkeypatch.delenv("KERNELDSL_CACHE_KEY_FILE")
    refused_with("written to by others", "KERNELDSL_CACHE_SHARED", "KERNELDSL_CACHE_KEY_FILE")


@posix
def test_a_folder_that_becomes_unsafe(folder: Path, cache: DiskCache) -> None:
    assert cache.keep(KEY, sections_of(KEY))
    (folder / "entries").chmod(0o777)
    with pytest.warns(CacheWarning, match="written to by others"):
        assert not cache.keep(KEY, sections_of(KEY))


@posix
def test_an_entry_that_others_can_write_to(store: Store, trials: Trials) -> None:
    store.write(KEY, sections_of(KEY))
    store.path_of(KEY).chmod(0o606)
    assert trials.read(store, KEY) == "miss: mode"
    trials.check()


@needs_root
def test_a_folder_and_entries_of_another_user(store, folder, monkeypatch, trials, secret) -> None:
    store = Store(store.folder, secret)
    store.write(KEY, sections_of(KEY))
    os.chown(store.path_of(KEY), NOBODY, NOBODY)
    assert trials.read(store, KEY) == "miss: owner"
    os.chown(store.path_of(KEY), 0, 0)
    os.chown(folder / "entries", NOBODY, NOBODY)
    refused_with("belongs to user 65534", "KERNELDSL_CACHE_DIR", "KERNELDSL_CACHE_SHARED")
    os.chown(folder / "entries", 0, 0)
    os.chown(folder, NOBODY, NOBODY)
    refused_with("belongs to user 65534")
    monkeypatch.setenv("KERNELDSL_CACHE_SHARED", "1")
    assert new_cache()[0].look_up(KEY) is not None
    trials.check()


def test_links(folder: Path, tmp_path: Path, store: Store) -> None:
    """A person may link the whole folder to another place; within it a link is nobody's."""
    store.write(KEY, sections_of(KEY))
    elsewhere = tmp_path / "elsewhere"
    folder.rename(elsewhere)
    folder.symlink_to(elsewhere)
    cache, said = new_cache()
    assert said == []
    assert cache.look_up(KEY) is not None
    (elsewhere / "entries").rename(tmp_path / "entries")
    (elsewhere / "entries").symlink_to(tmp_path / "entries")
    refused_with("is a symbolic link")


def test_a_file_in_the_place_of_the_folder(folder: Path) -> None:
    folder.write_text("something else")
    refused_with("is not a folder")
    assert folder.read_text() == "something else"


def test_a_file_in_the_way_to_the_folder(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / "cache"
    monkeypatch.setenv("KERNELDSL_CACHE_DIR", str(folder))
    cache, _ = new_cache()
    with pytest.warns(CacheWarning) as warned:
        assert not cache.keep(KEY, sections_of(KEY))
    assert cache.look_up(KEY) is None
    (said,) = (str(each.message) for each in warned)
    assert said == (
        f"the cache in {folder} cannot be written to. {tmp_path / 'file'} is not a folder, so "
        "kernels are compiled again in each process. Set KERNELDSL_CACHE_DIR to a folder of yours "
        "that can be written to, or KERNELDSL_CACHE=off."
    )
    assert "Errno" not in said


@pytest.mark.parametrize("number", [errno.EACCES, errno.ENOSPC, errno.EROFS])
def test_what_the_system_refuses_is_told_in_words(
    number: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object) -> None:
        raise OSError(number, os.strerror(number), "some file")

    cache, _ = new_cache()
    monkeypatch.setattr("kerneldsl.cache.directory.Directory.write", refuse)
    with pytest.warns(CacheWarning) as warned:
        assert not cache.keep(KEY, sections_of(KEY))
    (said,) = (str(each.message) for each in warned)
    assert said.startswith(f"the cache in {folder} cannot be written to. {folder}: ")
    assert f"{os.strerror(number)}, so kernels" in said
    assert "Set KERNELDSL_CACHE_DIR to" in said
    assert "Errno" not in said


def test_a_folder_that_cannot_be_looked_at_is_told_in_words(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(folder))

    monkeypatch.setattr("kerneldsl.cache.folders.Folder.check", refuse)
    cache, (said,) = new_cache()
    assert cache.user is None
    assert f"the cache in {folder} cannot be written to" in said
    assert "Permission denied, so kernels" in said
    assert "Errno" not in said


def test_off(monkeypatch, folder: Path) -> None:
    for word in ("off", "0", "False"):
        monkeypatch.setenv("KERNELDSL_CACHE", word)
        cache, said = new_cache()
        assert not cache.is_on
        assert said == []
        assert not cache.keep(KEY, sections_of(KEY))
        assert cache.look_up(KEY) is None
    assert not folder.exists()
    assert counters.read().misses == {}


@pytest.mark.parametrize("text", ["much", "-1", "1 PB", "1e9", "1.5.2"])
def test_a_size_that_is_none(monkeypatch, text: str) -> None:
    monkeypatch.setenv("KERNELDSL_CACHE_SIZE", text)
    cache, (message,) = new_cache()
    assert not cache.is_on
    assert repr(text) in message
    with pytest.raises(CacheError, match="KERNELDSL_CACHE_SIZE"):
        face.prune()


@pytest.mark.parametrize("text", ["9" * 400, "9" * 5000 + "T", f"{'9' * 400}.5k", "1." + "5" * 999])
def test_a_size_of_many_digits(monkeypatch, text: str) -> None:
    monkeypatch.setenv("KERNELDSL_CACHE_SIZE", text)
    cache, said = new_cache()
    assert said == []
    assert cache.keep(KEY, sections_of(KEY)) == (not text.startswith("1."))
    assert face.prune("9" * 400) == 0


@posix
def test_without_a_home(monkeypatch) -> None:
    """A user whom the system does not know, as in a container: one warning, and what to set."""
    for name in ("KERNELDSL_CACHE_DIR", "HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", lambda uid: {}[uid])
    cache, (message,) = new_cache()
    for word in ("home directory", str(os.getuid()), "Set KERNELDSL_CACHE_DIR", "HOME"):
        assert word in message
    assert not cache.keep(KEY, sections_of(KEY))
    with pytest.raises(CacheError, match="Set KERNELDSL_CACHE_DIR"):
        face.path()
    monkeypatch.setenv("XDG_CACHE_HOME", "~/cache")  # which nothing expands
    assert new_cache()[1] == []


UNKNOWN = ["~nobody-of-that-name/x", "~nobody-of-that-name", "a" * 5000, "/" + "b/" * 2500]


@pytest.mark.parametrize("text", UNKNOWN, ids=lambda text: text[:12])
@pytest.mark.parametrize("name", ["DIR", "SITE", "KEY_FILE"])
def test_a_path_that_cannot_be_is_one_warning(monkeypatch, name: str, text: str) -> None:
    """And never an error: a launch does without."""
    variable = f"KERNELDSL_CACHE_{name}"
    monkeypatch.setenv(variable, text)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cache = DiskCache(read_settings())
        with cache.compiling(KEY) as found:
            assert found is None
        kept = [cache.keep(key_of(number), sections_of(key_of(number))) for number in range(3)]
        assert (cache.look_up(KEY) is not None) == kept[0]
    assert len(caught) <= 1
    assert all(w.category is CacheWarning for w in caught)
    if name == "SITE":
        assert all(kept), "the user's own folder is as good as before"
    if text.startswith("~nobody"):
        (said,) = [str(w.message) for w in caught]
        assert variable in said
        assert "without ~" in said
        assert len(said) < 600


# ------------------------------------------------------------------------ a shared folder


@posix
@pytest.mark.parametrize("mode", [0o700, 0o750, 0o2775, 0o777, 0o1777])
def test_what_is_made_in_a_shared_folder_is_for_those_who_share_it(
    folder: Path, monkeypatch, secret, mode: int
) -> None:
    folder.mkdir()
    folder.chmod(mode)
    monkeypatch.setenv("KERNELDSL_CACHE_SHARED", "1")
    old = os.umask(0o027)
    try:
        cache, said = new_cache()
        assert said == []
        assert cache.keep(KEY, sections_of(KEY))
        assert cache.user is not None
        path = cache.user.path_of(KEY)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        path.write_bytes(b"damaged")
        assert cache.look_up(KEY) is None
    finally:
        os.umask(old)
    for made in (folder / "entries", folder / "quarantine"):
        assert stat.S_IMODE(made.stat().st_mode) == mode
    assert len(list((folder / "quarantine").iterdir())) == 1


@posix
def test_a_shared_folder_that_is_not_there_is_made_private(
    folder: Path, monkeypatch, secret
) -> None:
    monkeypatch.setenv("KERNELDSL_CACHE_SHARED", "1")
    assert new_cache()[0].keep(KEY, sections_of(KEY))
    for made in (folder, folder / "entries"):
        assert stat.S_IMODE(made.stat().st_mode) == 0o700


@posix
def test_a_folder_is_not_opened_by_those_who_do_not_share_it(folder: Path) -> None:
    """Without the variable, what is made is private in a folder that all may read, too."""
    folder.mkdir(mode=0o755)
    cache, _ = new_cache()
    assert cache.keep(KEY, sections_of(KEY))
    assert cache.user is not None
    cache.user.path_of(KEY).write_bytes(b"damaged")
    assert cache.look_up(KEY) is None
    for made in (folder / "entries", folder / "quarantine"):
        assert stat.S_IMODE(made.stat().st_mode) == 0o700


@needs_fork
@needs_root
@pytest.mark.parametrize("mode", [0o2775, 0o777])
def test_two_users_share_a_folder(open_tmp, folder: Path, monkeypatch, secret, mode: int) -> None:
    """Each reads, replaces, puts aside and evicts what the other wrote, if both share it."""
    folder.mkdir()
    os.chown(folder, 0, NOBODY)
    folder.chmod(mode)
    monkeypatch.setenv("KERNELDSL_CACHE_SHARED", "1")
    assert new_cache()[0].keep(KEY, sections_of(KEY))
    kept = folder / "entries" / f"{KEY.digest}.kdc"
    assert kept.stat().st_uid == 0

    def shares() -> None:
        cache, said = new_cache()
        assert said == []
        trials = Trials()
        assert trials.look_up(cache, KEY) == "right"
        assert cache.keep(key_of(1), sections_of(key_of(1)))
        assert cache.keep(KEY, sections_of(KEY))
        assert kept.stat().st_uid == NOBODY
        trials.check()

    def does_not_share() -> None:
        monkeypatch.delenv("KERNELDSL_CACHE_SHARED")
        refused_with("belongs to user 0")

    as_nobody(shares)
    as_nobody(does_not_share)
    cache, said = new_cache()
    assert said == []
    assert cache.look_up(key_of(1)) is not None
    assert cache.look_up(KEY) is not None
    kept.write_bytes(b"damaged")
    os.chown(kept, 0, 0)
    kept.chmod(0o644)

    def puts_aside() -> None:
        assert new_cache()[0].look_up(KEY) is None
        assert not kept.exists()
        assert len(list((folder / "quarantine").iterdir())) == 1
        assert face.clear() == 1

    as_nobody(puts_aside)
    monkeypatch.delenv("KERNELDSL_CACHE_SHARED")
    refused_with("can be written to by others")


# -------------------------------------------------------------------- the site's folder


@pytest.fixture
def site(tmp_path: Path, monkeypatch) -> Store:
    """A second folder with an entry of key 0."""
    monkeypatch.setenv("KERNELDSL_CACHE_DIR", str(tmp_path / "site"))
    made = DiskCache(read_settings())
    made.keep(KEY, {"ptx": b"site"})
    monkeypatch.setenv("KERNELDSL_CACHE_DIR", str(tmp_path / "user"))
    monkeypatch.setenv("KERNELDSL_CACHE_SITE", str(tmp_path / "site"))
    counters.reset()
    assert made.user is not None
    return made.user


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    files = (p for p in folder.rglob("*") if p.is_file())
    return {str(p): (p.stat().st_mtime_ns, p.read_bytes()) for p in files}


def test_the_site_comes_first_and_stays_as_it_is(site: Store) -> None:
    os.utime(site.path_of(KEY), (1, 1))
    site.path_of(key_of(1)).write_bytes(b"damaged")
    before = snapshot(site.folder.path)
    cache, _ = new_cache()
    cache.keep(KEY, {"ptx": b"user"})
    cache.keep(key_of(1), sections_of(key_of(1)))
    found = cache.look_up(KEY)
    assert found is not None
    assert found.entry.sections == {"ptx": b"site"}
    assert cache.look_up(key_of(1)) is not None, "the user's own is behind a damaged one"
    assert cache.look_up(key_of(2)) is None
    assert counters.read().misses == {"absent": 1}
    assert snapshot(site.folder.path) == before
    face.clear()
    face.prune(0)
    assert snapshot(site.folder.path) == before


def test_a_site_that_is_not_there(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("KERNELDSL_CACHE_SITE", str(tmp_path / "nowhere"))
    cache, said = new_cache()
    assert said == []
    assert cache.keep(KEY, sections_of(KEY))
    assert cache.look_up(KEY) is not None


@posix
def test_a_site_that_others_can_write_to(site: Store) -> None:
    (site.folder.path / "entries").chmod(0o777)
    cache, (message,) = new_cache()
    assert "KERNELDSL_CACHE_SHARED" in message
    assert cache.look_up(KEY) is None
    assert cache.keep(KEY, sections_of(KEY)), "the user's own folder is as good as before"


def site_is_taken(site: Store) -> bool:
    """Whether the site's entry is found, with no word; else with one."""
    cache, said = new_cache()
    found = cache.look_up(KEY)
    is_taken = found is not None and found.store.folder.is_site
    assert len(said) == (0 if is_taken else 1), said
    if not is_taken:
        (message,) = said
        assert "the site's cache is ignored" in message
        assert "can be exchanged by every user" in message
    assert cache.keep(KEY, sections_of(KEY)), "the user's own folder is as good as before"
    return is_taken


def modes(site: Store, folder: int, file: int) -> None:
    site.path_of(KEY).chmod(file)
    for path in (site.folder.entries, site.folder.path):
        path.chmod(folder)


def owned_by(site: Store, user: int, path: Path | None = None) -> None:
    for each in (path or site.folder.path, *(path or site.folder.path).rglob("*")):
        os.chown(each, user, user)


@posix
@pytest.mark.parametrize("mode", [0o755, 0o775, 0o2775, 0o770, 0o750, 0o555])
def test_a_site_as_an_installer_leaves_it(site: Store, mode: int) -> None:
    """Under umask 002 too, as a package is whose files Python runs."""
    modes(site, mode, mode & 0o666)
    assert site_is_taken(site)


@needs_root
@pytest.mark.parametrize("mode", [0o755, 0o775])
def test_a_site_of_another_user(site: Store, mode: int) -> None:
    """Whoever names it names the folder of that user, as with the user's packages."""
    modes(site, mode, mode & 0o666)
    owned_by(site, 1234)
    assert site_is_taken(site)


@posix
@pytest.mark.parametrize("name", [".", "entries"])
@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o757, 0o702])
def test_a_site_that_every_user_can_write_to(site: Store, name: str, mode: int) -> None:
    (site.folder.path / name).chmod(mode)
    assert not site_is_taken(site)


@posix
def test_an_entry_of_a_site_that_every_user_can_write_to(site: Store) -> None:
    modes(site, 0o775, 0o666)
    cache, said = new_cache()
    assert said == []
    assert cache.look_up(KEY) is None
    assert counters.read().misses == {"mode": 1}


@needs_root
def test_an_entry_that_is_not_of_who_owns_the_site(site: Store) -> None:
    os.chown(site.path_of(KEY), 1234, 1234)
    assert new_cache()[0].look_up(KEY) is None
    assert counters.read().misses == {"owner": 1}


@needs_root
@pytest.mark.parametrize(
    ("parent_mode", "grandparent_mode", "owner", "is_taken"),
    [
        (0o755, 0o755, 1234, True),
        (0o775, 0o755, 1234, True),
        (0o777, 0o755, 1234, False),  # anybody may have made it
        (0o1777, 0o755, 1234, False),  # as in /tmp
        (0o755, 0o777, 1234, False),  # anybody may exchange what it is in
        (0o755, 0o1777, 1234, True),  # the sticky bit forbids that
        (0o1777, 0o755, 0, True),
        (0o777, 0o755, 0, True),  # of root alone, and named: as before
    ],
)
def test_the_folders_that_lead_to_a_site(
    tmp_path: Path, site: Store, monkeypatch, parent_mode, grandparent_mode, owner, is_taken
) -> None:
    parent = tmp_path / "grandparent" / "parent"
    parent.mkdir(parents=True)
    moved = Store(site.folder._replace(path=parent / "site"))
    site.folder.path.rename(moved.folder.path)
    owned_by(moved, owner)
    parent.chmod(parent_mode)
    parent.parent.chmod(grandparent_mode)
    for path in (moved.folder.path, tmp_path / "link"):
        if path.name == "link":
            path.symlink_to(moved.folder.path)
        monkeypatch.setenv("KERNELDSL_CACHE_SITE", str(path))
        assert site_is_taken(moved) == is_taken


@needs_root
@pytest.mark.parametrize("user", [1234, NOBODY])
def test_a_site_that_is_exchanged_later(tmp_path: Path, site: Store, monkeypatch, user) -> None:
    """Where every user can do that, by one of their own, in a process that has looked before."""
    parent = tmp_path / "parent"
    parent.mkdir()
    parent.chmod(0o777)
    moved = Store(site.folder._replace(path=parent / "site"))
    site.folder.path.rename(moved.folder.path)
    monkeypatch.setenv("KERNELDSL_CACHE_SITE", str(moved.folder.path))
    cache, said = new_cache()
    assert said == []
    assert cache.look_up(KEY) is not None
    moved.folder.path.rename(parent / "old")
    shutil.copytree(parent / "old", moved.folder.path)
    owned_by(moved, user)
    assert cache.look_up(KEY) is None
    assert counters.read().misses == {"owner": 1}


@needs_fork
@needs_root
def test_an_environment_of_another_user(open_tmp: Path, site: Store, monkeypatch) -> None:
    """User A installs a package with its cache, and user B runs it."""
    package = open_tmp / "environment" / "package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    moved = Store(site.folder._replace(path=package / "_cache"))
    site.folder.path.rename(moved.folder.path)
    modes(moved, 0o775, 0o664)
    owned_by(moved, 1234, package.parent)
    own = open_tmp / "own"
    own.mkdir()
    os.chown(own, NOBODY, NOBODY)
    monkeypatch.setenv("KERNELDSL_CACHE_SITE", str(moved.folder.path))
    monkeypatch.setenv("KERNELDSL_CACHE_DIR", str(own / "cache"))

    def use() -> None:
        assert site_is_taken(moved)

    as_nobody(use)
    owned_by(moved, NOBODY, package.parent)
    as_nobody(use)


@posix
def test_two_folders_that_are_refused_are_one_warning(site: Store, tmp_path: Path) -> None:
    modes(site, 0o777, 0o666)
    (tmp_path / "user").mkdir(exist_ok=True)
    (tmp_path / "user").chmod(0o777)
    cache, said = new_cache()
    assert len(said) == 1
    assert not cache.is_on


# ------------------------------------------------------------------- without rights


def as_nobody(work: Callable[[], object]) -> None:
    """Do some work as a user without rights; fail if that user has them after all."""

    def drop_and_work() -> None:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        assert os.geteuid() == NOBODY
        with pytest.raises(PermissionError):
            os.setresuid(0, 0, 0)
        work()

    assert run_in_child(drop_and_work) == 0


@pytest.fixture
def open_tmp(tmp_path: Path):
    """`tmp_path`, which others may pass through to what is in it."""
    changed = []
    for folder in (tmp_path, *tmp_path.parents):
        mode = stat.S_IMODE(folder.stat().st_mode)
        if not mode & 0o001:
            folder.chmod(mode | 0o011)
            changed.append((folder, mode))
    yield tmp_path
    for folder, mode in changed:
        folder.chmod(mode)


@needs_fork
@needs_root
def test_a_folder_that_this_user_can_only_read(open_tmp, folder: Path, store: Store) -> None:
    """A hit is a hit, a write is one warning, and nothing else happens."""
    store.write(KEY, sections_of(KEY))
    for path in (folder, *folder.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    for path in (folder, folder / "entries"):
        path.chmod(0o500)
    os.utime(store.path_of(KEY), (1, 1))

    def work() -> None:
        with pytest.raises(PermissionError):
            (folder / "entries" / "probe").write_bytes(b"")
        cache, said = new_cache()
        assert said == []
        trials = Trials()
        assert trials.look_up(cache, KEY) == "right"
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for number in range(5):
                assert not cache.keep(key_of(number), sections_of(key_of(number)))
        assert [w.category for w in caught] == [CacheWarning]
        assert "Permission denied" in str(caught[0].message)
        assert trials.look_up(cache, KEY) == "right"

    as_nobody(work)


@needs_fork
@needs_root
def test_damage_in_a_folder_that_can_only_be_read(open_tmp, folder: Path, store: Store) -> None:
    store.path_of(KEY).write_bytes(b"damaged")
    os.chown(store.path_of(KEY), NOBODY, NOBODY)
    for path in (folder, folder / "entries"):
        os.chown(path, NOBODY, NOBODY)
        path.chmod(0o500)

    def work() -> None:
        cache, _ = new_cache()
        assert cache.look_up(KEY) is None
        assert cache.look_up(KEY) is None
        assert counters.read().misses == {"length": 2}

    as_nobody(work)


@needs_fork
@needs_root
def test_a_folder_of_root_is_refused_and_a_site_of_root_is_taken(
    open_tmp, folder: Path, store: Store, monkeypatch
) -> None:
    store.write(KEY, sections_of(KEY))
    for path in (folder, folder / "entries"):
        path.chmod(0o755)
    store.path_of(KEY).chmod(0o644)

    def as_user() -> None:
        refused_with("belongs to user 0", "runs as 65534")

    as_nobody(as_user)
    own = open_tmp / "own"
    own.mkdir()
    os.chown(own, NOBODY, NOBODY)
    monkeypatch.setenv("KERNELDSL_CACHE_SITE", str(folder))
    monkeypatch.setenv("KERNELDSL_CACHE_DIR", str(own / "cache"))

    def as_site() -> None:
        cache, said = new_cache()
        assert said == []
        trials = Trials()
        assert trials.look_up(cache, KEY) == "right"
        assert cache.keep(key_of(1), sections_of(key_of(1)))
        assert (own / "cache" / "entries").stat().st_uid == NOBODY

    as_nobody(as_site)


@needs_fork
@needs_root
def test_a_parent_that_this_user_cannot_write_to(open_tmp, monkeypatch) -> None:
    closed = open_tmp / "closed"
    closed.mkdir(mode=0o755)
    monkeypatch.setenv("KERNELDSL_CACHE_DIR", str(closed / "cache"))

    def work() -> None:
        cache, _ = new_cache()
        assert cache.look_up(KEY) is None
        with pytest.warns(CacheWarning, match="cannot be written to"):
            assert not cache.keep(KEY, sections_of(KEY))

    as_nobody(work)
