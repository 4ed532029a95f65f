"""A cache folder for each test, and the counts of its trials for the report."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kerneldsl.cache.disk import DiskCache, counters
from kerneldsl.cache.folders import Folder
from kerneldsl.cache.settings import read_settings
from kerneldsl.cache.store import Store
from kerneldsl.utilities import environment
from tests.cache.trials import PROPERTY, Trials


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the cache of this test is."""
    for name in ("", "_SITE", "_SIZE", "_KEY_FILE", "_SHARED"):
        monkeypatch.delenv(f"KERNELDSL_CACHE{name}", raising=False)
    monkeypatch.setenv("KERNELDSL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(environment, "_reported", set())
    counters.reset()
    return tmp_path / "cache"


@pytest.fixture
def store(folder: Path) -> Store:
    made = Folder(folder)
    made.make()
    return Store(made)


@pytest.fixture
def cache() -> DiskCache:
    """A cache that no other test has warned from."""
    return DiskCache(read_settings())


@pytest.fixture
def trials(record_property) -> Iterator[Trials]:
    counted = Trials()
    yield counted
    record_property(PROPERTY, counted.row())
