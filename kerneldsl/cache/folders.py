"""Folders of the cache, and the test that their contents may be run.

Entries of the cache become machine code. A folder that other users can write to would let them run
code in this process. Such a folder is refused, unless ``KERNELDSL_CACHE_SHARED`` permits it and
entries are signed. Changes go through descriptors of the folders that were checked
(:mod:`~kerneldsl.cache.directory`), and files are checked again when they are opened. So replacing
a folder in between has no effect.

A site's folder is code that the environment names, as ``PYTHONPATH`` does, and is trusted as such
code is (docs/adr/0032).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kerneldsl.errors import CacheError

if TYPE_CHECKING:  # a warm start opens no folder
    from kerneldsl.cache.directory import Directory

__all__ = [
    "ENTRIES",
    "QUARANTINE",
    "STATE",
    "Folder",
    "is_foreign",
    "is_open_to_all",
    "is_open_to_others",
    "nearest_existing",
]

ENTRIES = "entries"
QUARANTINE = "quarantine"
#: Holds files other than entries: the estimate of the size, and the file of the locks.
STATE = "state"
_PRIVATE = 0o700


def _own_user() -> int | None:
    # Windows has no such numbers, and guards the user's folders by other means.
    return os.getuid() if hasattr(os, "getuid") else None


def is_foreign(status: os.stat_result, *, is_site: bool) -> bool:
    """Return whether a file, folder or link belongs to neither this user nor, of a site, root."""
    own = _own_user()
    owners = {own, 0} if is_site else {own}
    return own is not None and status.st_uid not in owners


def is_open_to_others(status: os.stat_result) -> bool:
    """Return whether others than the owner may write to a file or folder."""
    return _own_user() is not None and bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def is_open_to_all(status: os.stat_result) -> bool:
    """Return whether every user of the machine may write to a file or folder."""
    return _own_user() is not None and bool(status.st_mode & stat.S_IWOTH)


def _exposed(path: Path) -> Path | None:
    """Return a folder on the way to one in which every user may put another in its place."""
    inner = path.resolve()
    for outer in inner.parents:
        status = outer.stat()
        if is_open_to_all(status):
            is_held = status.st_mode & stat.S_ISVTX and not is_foreign(inner.lstat(), is_site=True)
            if not is_held:  # by the sticky bit, as in /tmp, for its owner
                return outer
        inner = outer
    return None


def nearest_existing(path: Path) -> Path | None:
    """Return a path, or the nearest folder above it that exists for this user."""
    # Unlike Path.exists, this one is False of what is in a folder that is closed to this user.
    return next((each for each in (path, *path.parents) if os.path.exists(each)), None)


class Folder(NamedTuple):
    """A folder of the cache."""

    #: The folder itself; entries are one level below.
    path: Path
    #: Whether the folder is the second one, which is only read.
    is_site: bool = False
    #: Whether other users may own and write entries; entries are then signed.
    is_shared: bool = False

    @property
    def entries(self) -> Path:
        """Folder of the entries."""
        return self.path / ENTRIES

    @property
    def quarantine(self) -> Path:
        """Folder of damaged entries."""
        return self.path / QUARANTINE

    @property
    def file_mode(self) -> int:
        """Permissions of a new file; of a shared one, the umask decides what others may."""
        return 0o664 if self.is_shared else 0o600

    def check(self) -> bool:
        """Check that what is in the folder may be run; say whether there is a folder.

        Raises `CacheError` if it may not.
        """
        return all([self._check_path(self.path), self._check_path(self.entries)])

    def make(self) -> None:
        """Make the folder if there is none, for this user alone, and check it.

        Who shares a folder makes it with the rights that it is to have; what is made within it has
        the same. Raises `OSError` if it cannot be made, `CacheError` if it is not safe.
        """
        with self.opened(ENTRIES, make=True):
            pass

    @contextmanager
    def opened(self, name: str, *, make: bool = False) -> Iterator[Directory]:
        """Open a folder in this one for a ``with`` block: what was checked is what is open.

        `make` makes it if there is none, and this one: for this user alone, or for all who share
        this one. Raises `OSError` if there is none, or the system refuses; `CacheError` if it is a
        link or not safe.
        """
        from kerneldsl.cache.directory import Directory

        if make:
            # A folder made by makedirs would get the rights of the umask above its last part.
            for path in reversed([p for p in (self.path, *self.path.parents) if not p.exists()]):
                path.mkdir(mode=_PRIVATE, exist_ok=True)
        self._check_link(self.path)
        with Directory.open(self.path, is_passed=True) as root:
            self._check(self.path, root.status())
            is_new = make and root.make(name, _PRIVATE)
            try:
                folder = root.child(name)
            except NotADirectoryError:
                self._check_path(root.path / name)  # says what it is
                raise
            with folder:
                if is_new and self.is_shared and not is_foreign(folder.status(), is_site=False):
                    # Users who may write here may write there, whatever the umask.
                    folder.set_mode(stat.S_IMODE(root.status().st_mode))
                self._check(folder.path, folder.status())
                yield folder

    def unwritable_error(self, error: OSError) -> CacheError:
        """Return the error of a folder that cannot be made or written to: why, and what to do."""
        existing = nearest_existing(self.path)
        why = f"{existing}: {error.strerror or error}"
        if existing is not None and not existing.is_dir():
            why = f"{existing} is not a folder"
        return CacheError(
            f"the cache in {self.path} cannot be written to",
            value=str(self.path),
            limit=f"{why}, so kernels are compiled again in each process",
            remedy=f"Set {self._variable} to a folder of yours that can be written to, or "
            "KERNELDSL_CACHE=off",
        )

    def trusts(self, status: os.stat_result) -> bool:
        """Return whether a file or folder belongs to a user that this process trusts."""
        return self.is_shared or not is_foreign(status, is_site=self.is_site)

    def _check_path(self, path: Path) -> bool:
        try:
            # A user may replace the folder by a link; within it there is no reason to.
            status = path.stat() if path == self.path else path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        self._check_link(self.path)
        self._check(path, status)
        return True

    def _check_link(self, path: Path) -> None:
        """Refuse somebody else's link from where others make links: they may lead it anywhere."""
        status = path.lstat()
        if not stat.S_ISLNK(status.st_mode) or not is_foreign(status, is_site=True):
            return
        around = path.parent.stat()
        if is_open_to_all(around) if self.is_site else is_open_to_others(around):
            raise CacheError(
                f"the cache folder {path} is a symbolic link of user {status.st_uid}",
                value=str(path),
                limit=f"Others can make links in {path.parent}, so it must be of this user or root",
                remedy=f"Set {self._variable} to the folder itself",
            )

    def _check(self, path: Path, status: os.stat_result) -> None:
        if not stat.S_ISDIR(status.st_mode):
            kind = "a symbolic link" if stat.S_ISLNK(status.st_mode) else "not a folder"
            raise CacheError(
                f"the cache folder {path} is {kind}",
                value=str(path),
                limit="The cache must be a folder",
                remedy=f"Remove {path}, or set {self._variable} to another folder",
            )
        if self.is_shared:
            return
        if self.is_site:
            self._check_site(path, status)
        elif is_foreign(status, is_site=False):
            raise CacheError(
                f"the cache folder {path} belongs to user {status.st_uid}; this process runs as "
                f"{_own_user()}",
                value=str(path),
                limit="What is in the cache is run, so it must be of this user",
                remedy=f"Set {self._variable} to a folder of this user; or share the folder, with "
                "KERNELDSL_CACHE_SHARED=1 and KERNELDSL_CACHE_KEY_FILE, so that entries are signed",
            )
        elif is_open_to_others(status):
            raise CacheError(
                f"the cache folder {path} can be written to by others (mode "
                f"{stat.S_IMODE(status.st_mode):04o})",
                value=str(path),
                limit="What is in the cache is run, so only its owner may write to it",
                remedy=f"Run: chmod go-w {path}; or share it, with KERNELDSL_CACHE_SHARED=1 and "
                "KERNELDSL_CACHE_KEY_FILE, so that entries are signed",
            )

    def _check_site(self, path: Path, status: os.stat_result) -> None:
        exposed = path if is_open_to_all(status) else None
        if exposed is None and (is_foreign(status, is_site=True) or is_open_to_others(status)):
            exposed = _exposed(path)
        if exposed is not None:
            raise CacheError(
                f"the site's cache {path} can be exchanged by every user: {exposed} has mode "
                f"{stat.S_IMODE(exposed.stat().st_mode):04o}",
                value=str(path),
                limit="What is in the cache is run, so it must be as well kept as a package",
                remedy=f"Run: chmod o-w {exposed}; or share it, with KERNELDSL_CACHE_SHARED=1 and "
                "KERNELDSL_CACHE_KEY_FILE, so that entries are signed",
            )

    @property
    def _variable(self) -> str:
        return "KERNELDSL_CACHE_SITE" if self.is_site else "KERNELDSL_CACHE_DIR"
