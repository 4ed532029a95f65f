"""Values of many files, which are computed again only if one of the files has changed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import kerneldsl as kd
from kerneldsl.cache import remembered as module
from kerneldsl.cache.disk import disk_cache
from kerneldsl.cache.remembered import Computed, checking_files_once, rechecking_files, remembered


class Files:
    """Two files, and what reads them."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.first, self.second = folder / "first", folder / "second"
        self.first.write_text("1")
        self.second.write_text("2")
        self.reads = 0

    def value(self) -> str:
        return remembered({"files": str(self.folder)}, self._compute)

    def _compute(self) -> Computed:
        self.reads += 1
        files = sorted(self.folder.iterdir())
        text = " ".join(f"{each.name}={each.read_text()}" for each in files)
        return Computed(text, map(str, (*files, self.folder)))


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    monkeypatch.setattr(module, "_SETTLED_NS", 0)
    made = Files(tmp_path / "files")
    time.sleep(0.02)  # more than a tick of the clock that files have their times by
    return made


def _replace(files: Files) -> None:
    """Replace a file by another of the same size and time, as an archive's programs do."""
    status = files.first.stat()
    other = files.folder.parent / "other"
    other.write_text("3")
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    other.replace(files.first)


def _write_back(files: Files) -> None:
    """Write a file in place, and give it its time back."""
    status = files.first.stat()
    files.first.write_text("4")
    os.utime(files.first, ns=(status.st_atime_ns, status.st_mtime_ns))


CHANGES: dict[str, Callable[[Files], object]] = {
    "contents": lambda files: files.first.write_text("12"),
    "contents of the same size": lambda files: files.first.write_text("5"),
    "replaced": _replace,
    "written back": _write_back,
    "a new file": lambda files: (files.folder / "third").write_text("3"),
    "a file less": lambda files: files.second.unlink(),
    "another name": lambda files: files.second.rename(files.folder / "third"),
}


def test_files_that_are_the_same_are_not_read_again(files: Files) -> None:
    assert [files.value() for _ in range(3)] == ["first=1 second=2"] * 3
    assert files.reads == 1


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_seen(files: Files, change: str) -> None:
    before = files.value()
    CHANGES[change](files)
    after = files.value()
    assert after != before
    assert after == " ".join(f"{p.name}={p.read_text()}" for p in sorted(files.folder.iterdir()))


def test_what_has_just_changed_is_not_remembered(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SETTLED_NS", 3_000_000_000)
    assert files.value() == files.value()
    assert files.reads == 2


def test_a_damaged_entry_is_computed_again(files: Files, folder: Path) -> None:
    files.value()
    (entry,) = (folder / "entries").iterdir()
    entry.write_bytes(entry.read_bytes()[:-1])
    assert files.value() == "first=1 second=2"
    assert files.reads == 2


def test_nothing_is_remembered_without_a_cache(
    files: Files, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setenv("KERNELDSL_CACHE", "off")
    files.value()
    files.value()
    assert files.reads == 2
    assert not folder.exists()


def test_a_folder_for_reading_is_no_error(files: Files, folder: Path) -> None:
    folder.parent.mkdir(exist_ok=True)
    folder.write_text("a file in its place")
    with pytest.warns(kd.CacheWarning):
        assert files.value() == "first=1 second=2"
    assert disk_cache().user is None


def test_what_fails_is_not_remembered(files: Files) -> None:
    def fail() -> Computed:
        raise LookupError("it cannot be told")

    for _ in range(2):
        with pytest.raises(LookupError, match="cannot be told"):
            remembered({"files": "x"}, fail)


def test_a_launch_looks_at_files_once(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    original = module.status_of
    monkeypatch.setattr(
        module, "status_of", lambda paths, **how: looks.append(1) or original(paths, **how)
    )
    before = files.value()
    looks.clear()
    with checking_files_once():
        assert [files.value(), files.value()] == [before] * 2
        assert len(looks) == 1
        files.second.write_text("5")
        # What was compiled in the meantime is stored under what the files are then.
        with rechecking_files():
            assert files.value() != before
        assert files.value() == before
    assert files.value() != before
    with checking_files_once():
        assert files.value() != before


def test_a_value_may_depend_on_no_file() -> None:
    made = []

    def compute() -> Computed:
        made.append("made")
        return Computed("value", (), "module.kernel")

    for _ in range(2):
        assert remembered({"about": "no files"}, compute) == "value"
    assert made == ["made"]
