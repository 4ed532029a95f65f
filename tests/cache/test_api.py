"""``kd.cache``: the folder, counts, lists, and taking entries to another machine."""

from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path

import pytest

import kerneldsl as kd
from kerneldsl.cache.disk import CacheStatistics, DiskCache, counters, disk_cache
from kerneldsl.cache.key import Key
from kerneldsl.cache.settings import read_settings
from kerneldsl.errors import CacheError
from kerneldsl.utilities.environment import VARIABLES
from tests.cache.trials import Trials, key_of, sections_of


def filled(count: int = 3) -> DiskCache:
    cache = disk_cache()
    for number in range(count):
        assert cache.keep(key_of(number), sections_of(key_of(number)))
    return cache


def test_the_folder(folder: Path, monkeypatch) -> None:
    assert kd.cache.path() == folder
    monkeypatch.delenv("KERNELDSL_CACHE_DIR")
    platformdirs = pytest.importorskip("platformdirs")
    for home in ("", str(folder.parent), " "):
        monkeypatch.setenv("XDG_CACHE_HOME", home)
        assert kd.cache.path() == platformdirs.user_cache_path("kerneldsl", appauthor=False)
    assert not folder.exists(), "asking makes nothing"


def test_settings_are_read_when_they_are_needed(tmp_path: Path, monkeypatch) -> None:
    first = filled(1)
    assert disk_cache() is first
    monkeypatch.setenv("KERNELDSL_CACHE_DIR", str(tmp_path / "other"))
    assert disk_cache().look_up(key_of(0)) is None
    monkeypatch.setenv("KERNELDSL_CACHE", "off")
    assert not kd.cache.is_on()


def test_every_variable_is_described() -> None:
    from kerneldsl.cache import settings

    assert set(settings.NAMES) <= set(VARIABLES)


def test_counts() -> None:
    cache = filled(2)
    assert cache.look_up(key_of(0))
    found = cache.look_up(key_of(1))
    assert found is not None
    assert cache.look_up(key_of(2)) is None
    cache.reject(found, "of another driver")
    counters.saved(1.5)
    stats = kd.cache.stats()
    assert (stats.hits, stats.misses) == (1, {"unusable": 1, "absent": 1})
    assert (stats.writes, stats.failed_writes, stats.saved_s) == (2, 0, 1.5)
    assert stats.read_bytes == found.nbytes
    assert stats.written_bytes == 2 * found.nbytes
    assert json.loads(json.dumps(stats.to_dict())) == stats.to_dict()
    assert "misses: unusable" in repr(stats)
    assert "1.5 s" in stats._repr_html_()
    kd.cache.reset_stats()
    assert kd.cache.stats().to_dict() == CacheStatistics(0).to_dict()


def test_entries_and_clear(folder: Path) -> None:
    cache = filled()
    os.utime(folder / "entries" / f"{key_of(1).digest}.kdc", (1, 1))
    found = kd.cache.entries()
    assert {e.digest for e in found} == {key_of(n).digest for n in range(3)}
    assert found[-1].digest == key_of(1).digest, "the one used last comes first"
    assert all(Key(e.components).digest == e.digest for e in found)
    assert found[0].sections == {"ptx": 128, "metadata": 32}
    assert json.loads(json.dumps(found[0].to_dict()))["is_site"] is False
    assert kd.cache.clear() == 3
    assert kd.cache.entries() == ()
    assert cache.look_up(key_of(0)) is None
    assert kd.cache.clear() == 0


def test_prune() -> None:
    filled(10)
    size = kd.cache.entries()[0].nbytes
    assert kd.cache.prune() == 0
    assert kd.cache.prune(5 * size) == 6
    assert kd.cache.prune("0") == 4
    with pytest.raises(CacheError, match="max_bytes"):
        kd.cache.prune("some")


def test_verify(folder: Path) -> None:
    filled(6)
    files = sorted((folder / "entries").glob("*.kdc"))
    files[0].write_bytes(files[0].read_bytes()[:-3])
    files[1].write_bytes(files[2].read_bytes())
    files[3].chmod(0o666)
    found = kd.cache.verify()
    assert found.sound == 3
    assert found.refused == {"length": 1, "key": 1, "mode": 1}
    assert found.quarantined == 2
    assert "quarantined" in str(found)
    assert kd.cache.verify().refused == {"mode": 1}


# ---------------------------------------------------------------- to another machine


def test_export_and_import(tmp_path: Path, monkeypatch, trials: Trials) -> None:
    filled(4)
    assert kd.cache.export(tmp_path / "file.tar") == 4
    monkeypatch.setenv("KERNELDSL_CACHE_DIR", str(tmp_path / "other"))
    assert kd.cache.import_(tmp_path / "file.tar").imported == 4
    for number in range(4):
        assert trials.look_up(disk_cache(), key_of(number)) == "right"
    again = kd.cache.import_(tmp_path / "file.tar")
    assert again.to_dict() == {"imported": 4, "refused": {}, "evicted": 0}
    trials.check()


def test_a_missing_folder_is_told_before_entries_are_read(tmp_path: Path, monkeypatch) -> None:
    filled(1)
    monkeypatch.setattr("kerneldsl.cache.management.read_entries", None)
    with pytest.raises(kd.CacheError, match=r"file\.tar cannot be written: No such file"):
        kd.cache.export(tmp_path / "missing" / "file.tar")


def test_a_folder_that_takes_no_entries_is_not_the_archives_fault(
    tmp_path: Path, monkeypatch
) -> None:
    filled(1)
    kd.cache.export(tmp_path / "file.tar")
    (tmp_path / "in the way").write_text("")
    monkeypatch.setenv("KERNELDSL_CACHE_DIR", str(tmp_path / "in the way" / "cache"))
    with pytest.raises(kd.CacheError, match="in the way is not a folder") as refused:
        kd.cache.import_(tmp_path / "file.tar")
    assert "Set KERNELDSL_CACHE_DIR" in str(refused.value)


def test_export_takes_the_site_along(tmp_path: Path, monkeypatch) -> None:
    filled(2)
    monkeypatch.setenv("KERNELDSL_CACHE_SITE", str(kd.cache.path()))
    monkeypatch.setenv("KERNELDSL_CACHE_DIR", str(tmp_path / "user"))
    assert disk_cache().keep(key_of(1), sections_of(key_of(1)))
    assert kd.cache.export(tmp_path / "file.tar") == 2


def add(archive: tarfile.TarFile, name: str, data: bytes, kind: bytes = tarfile.REGTYPE) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    member.type = kind
    member.linkname = "/etc/passwd"
    archive.addfile(member, io.BytesIO(data))


def test_an_archive_is_not_believed(tmp_path: Path, monkeypatch) -> None:
    filled(2)
    kd.cache.export(tmp_path / "good.tar")
    with tarfile.open(tmp_path / "good.tar") as archive:
        good = [archive.extractfile(m).read() for m in archive]
    with tarfile.open(tmp_path / "bad.tar", "w") as archive:
        add(archive, "../../escape.kdc", good[0])
        add(archive, "/etc/absolute.kdc", good[1][:-1])
        add(archive, "a.kdc", b"", tarfile.SYMTYPE)
        add(archive, "b.kdc", b"", tarfile.FIFOTYPE)
        add(archive, "c.kdc", bytes(500))
    monkeypatch.setenv("KERNELDSL_CACHE_DIR", str(tmp_path / "deep" / "other"))
    before = {p for p in tmp_path.rglob("*") if "deep" not in p.parts}
    found = kd.cache.import_(tmp_path / "bad.tar")
    assert (found.imported, found.refused) == (1, {"length": 1, "kind": 2, "magic": 1})
    assert {p for p in tmp_path.rglob("*") if "deep" not in p.parts} == before
    assert len(kd.cache.entries()) == 1


def test_what_is_no_archive(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not an archive")
    with pytest.raises(CacheError, match="not an archive"):
        kd.cache.import_(tmp_path / "text")
    with pytest.raises(CacheError, match="cannot be read"):
        kd.cache.import_(tmp_path / "nothing")


def test_signatures_travel_with_an_archive(tmp_path: Path, monkeypatch) -> None:
    secrets = []
    for number in range(2):
        secrets.append(tmp_path / f"secret{number}")
        secrets[-1].write_bytes(os.urandom(32).hex().encode())
        secrets[-1].chmod(0o600)
    filled(2)
    kd.cache.export(tmp_path / "unsigned.tar")
    monkeypatch.setenv("KERNELDSL_CACHE_KEY_FILE", str(secrets[0]))
    assert kd.cache.export(tmp_path / "signed.tar") == 0, "what is not signed is not vouched for"
    filled(2)
    assert kd.cache.export(tmp_path / "signed.tar") == 2
    monkeypatch.setenv("KERNELDSL_CACHE_DIR", str(tmp_path / "other"))
    assert kd.cache.import_(tmp_path / "unsigned.tar").refused == {"signature": 2}
    assert kd.cache.import_(tmp_path / "signed.tar").imported == 2
    monkeypatch.setenv("KERNELDSL_CACHE_KEY_FILE", str(secrets[1]))
    assert kd.cache.import_(tmp_path / "signed.tar").refused == {"signature": 2}


# ------------------------------------------------------------------------- keys


def test_a_key_is_the_same_in_any_order_and_language() -> None:
    one = Key({"b": "é\ud800", "a": "\n"})
    assert one.encoded == Key({"a": "\n", "b": "é\ud800"}).encoded
    assert Key.decode(one.encoded) == one
    assert one.digest != Key({"b": "é", "a": "\n"}).digest


@pytest.mark.parametrize("text", [b"[]", b'{"a":1}', b'{"a": "1"}', b'{"b":"","a":""}', b"\xff"])
def test_what_is_no_key(text: bytes) -> None:
    with pytest.raises(ValueError):
        Key.decode(text)


def test_a_person_who_did_not_ask_pays_nothing(folder: Path) -> None:
    """Looking makes no folder."""
    assert DiskCache(read_settings()).look_up(key_of(0)) is None
    assert kd.cache.entries() == ()
    assert kd.cache.verify().sound == 0
    assert not folder.exists()
