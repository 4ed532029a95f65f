"""``kd.preflight()``: each thing that can be wrong with the folder of the checkup, simulated."""

from __future__ import annotations

import os
import stat
import sys
from collections import namedtuple
from pathlib import Path

import pytest

from kerneldsl.errors import CacheError
from kerneldsl.tools.doctor import checkup
from kerneldsl.utilities import environment
from tests.support.checkups import by_name, forget_variables

posix = pytest.mark.skipif(not hasattr(os, "getuid"), reason="POSIX modes of files")


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    forget_variables(monkeypatch)


def cache_checks(monkeypatch, folder):
    monkeypatch.setenv("KERNELDSL_CACHE_DIR", str(folder))
    return by_name(checkup.check_cache_folder())


def test_a_cache_folder_that_can_be_made(monkeypatch, tmp_path):
    checks = cache_checks(monkeypatch, tmp_path / "a" / "b")
    assert checks["cache.folder"].status == "ok"
    assert checks["cache.space"].status == "ok"
    assert list(tmp_path.iterdir()) == []


@posix
@pytest.mark.parametrize(
    ("mode", "status"), [(0o700, "ok"), (0o755, "warning"), (0o777, "problem"), (0o720, "problem")]
)
def test_modes_of_the_cache_folder(monkeypatch, tmp_path, mode, status):
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(mode)
    check = cache_checks(monkeypatch, folder)["cache.folder"]
    assert check.status == status
    if status != "ok":
        assert check.remedy == f"Run: chmod 700 {folder}"
        assert f"{mode:04o}" in check.found
    assert stat.S_IMODE(folder.stat().st_mode) == mode
    assert list(folder.iterdir()) == []


@posix
def test_a_cache_folder_of_another_user(monkeypatch, tmp_path):
    monkeypatch.setattr(checkup.os, "getuid", lambda: os.stat(tmp_path).st_uid + 1)
    check = cache_checks(monkeypatch, tmp_path)["cache.folder"]
    assert check.status == "problem"
    assert "belongs to user" in check.found


def test_a_cache_folder_that_is_a_file(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        check = cache_checks(monkeypatch, folder)["cache.folder"]
        assert check.status == "warning"
        assert "is not a folder" in check.found


def test_a_cache_folder_that_cannot_be_written_to(monkeypatch, tmp_path):
    def refuse(dir):
        raise OSError(30, "Read-only file system", str(dir))

    monkeypatch.setattr(checkup.tempfile, "TemporaryFile", refuse)
    for folder, verb in ((tmp_path, "be written to"), (tmp_path / "new", "be made")):
        check = cache_checks(monkeypatch, folder)["cache.folder"]
        assert check.status == "warning"
        assert f"{folder} cannot {verb}" in check.found
        assert "Read-only file system" in check.found
        assert "KERNELDSL_CACHE_DIR" in check.remedy


def test_little_room(monkeypatch, tmp_path):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(checkup.shutil, "disk_usage", lambda path: usage(1, 1, 3 * 2**20))
    check = cache_checks(monkeypatch, tmp_path)["cache.space"]
    assert check.status == "warning"
    assert "3 MiB" in check.found


def test_no_home_and_no_platformdirs(monkeypatch):
    def fail():
        raise CacheError("there is no home directory for the cache")

    monkeypatch.setattr(environment, "cache_folder", fail)
    (check,) = checkup.check_cache_folder()
    assert check.status == "warning"
    monkeypatch.undo()
    monkeypatch.delenv("KERNELDSL_CACHE_DIR", raising=False)
    monkeypatch.setitem(sys.modules, "platformdirs", None)
    monkeypatch.setattr(sys, "platform", "darwin")  # on Linux it is not needed
    (check,) = checkup.check_cache_folder()
    assert "pip install platformdirs" in check.remedy


def test_where_the_cache_folder_is(monkeypatch, tmp_path):
    assert environment.cache_folder().name == "kerneldsl" or sys.platform == "win32"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KERNELDSL_CACHE_DIR", "relative")
    assert environment.cache_folder() == tmp_path / "relative"
    monkeypatch.setenv("KERNELDSL_CACHE_DIR", "~/x")
    assert environment.cache_folder() == Path.home() / "x"


@posix
@pytest.mark.parametrize(
    ("shared", "key", "status"), [("1", "key", "ok"), ("1", "", "problem"), ("0", "key", "problem")]
)
def test_a_shared_cache_folder_may_be_written_to_by_others(
    monkeypatch, tmp_path, shared, key, status
):
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(0o770)
    monkeypatch.setenv("KERNELDSL_CACHE_SHARED", shared)
    monkeypatch.setenv("KERNELDSL_CACHE_KEY_FILE", key)
    assert cache_checks(monkeypatch, folder)["cache.folder"].status == status
