"""Variables that are on or off."""

from __future__ import annotations

import pytest

from kerneldsl.cache.settings import read_settings
from kerneldsl.utilities.environment import debug_is_on, launcher_is_off, pool_is_off


@pytest.mark.parametrize("word", ["", "  "])
def test_an_empty_variable_is_as_if_it_were_not_set(
    monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    for name in ("DEBUG", "POOL", "LAUNCHER", "CACHE", "CACHE_SHARED"):
        monkeypatch.setenv(f"KERNELDSL_{name}", word)
    monkeypatch.setenv("KERNELDSL_CACHE_KEY_FILE", "key")
    assert not debug_is_on()
    assert not pool_is_off()
    assert not launcher_is_off()
    assert read_settings().is_on
    assert not read_settings().is_shared


@pytest.mark.parametrize("word", ["off", "0", "False", " no "])
def test_each_variable_knows_the_words_for_off(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    for name in ("DEBUG", "POOL", "LAUNCHER", "CACHE", "CACHE_SHARED"):
        monkeypatch.setenv(f"KERNELDSL_{name}", word)
    monkeypatch.setenv("KERNELDSL_CACHE_KEY_FILE", "key")
    assert not debug_is_on()
    assert pool_is_off()
    assert launcher_is_off()
    assert not read_settings().is_on
    assert not read_settings().is_shared


def test_an_unknown_word_shares_no_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELDSL_CACHE_SHARED", "maybe")
    monkeypatch.setenv("KERNELDSL_CACHE_KEY_FILE", "key")
    assert not read_settings().is_shared
