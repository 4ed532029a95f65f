"""``cache=True``: files beside the source, and statistics."""

from __future__ import annotations

import importlib
import linecache
import pickle
import sys
import types

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl import cuda

TEXT = """
from kerneldsl import cuda

OFFSET = 1

@cuda.jit(cache=True)
def add(r, x):
    r[0] = x[0] + OFFSET

@cuda.jit
def plain(r, x):
    r[0] = x[0]
"""


@pytest.fixture
def load(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("KERNELDSL_CACHE", "on")
    path = tmp_path / "cached_program.py"
    path.write_text(TEXT)

    def load():
        sys.modules.pop("cached_program", None)
        importlib.invalidate_caches()
        return importlib.import_module("cached_program")

    load.folder = tmp_path / "__pycache__"
    with kd.use("cpu"):
        yield load
    sys.modules.pop("cached_program", None)


def names(folder):
    return sorted(each.suffix for each in folder.iterdir() if each.suffix != ".pyc")


def result(kernel, x):
    r = np.zeros(1, x.dtype)
    kernel[1, 1](r, x)
    return r[0]


def test_files_and_statistics(load):
    add = load().add
    assert result(add, np.ones(1)) == 2
    assert result(add, np.ones(1)) == 2
    assert result(add, np.ones(1, np.int32)) == 2
    assert names(load.folder) == [".nbc", ".nbc", ".nbi"]
    assert (sum(add.stats.cache_hits.values()), sum(add.stats.cache_misses.values())) == (0, 2)
    again = load().add
    assert result(again, np.ones(1)) == 2
    assert (sum(again.stats.cache_hits.values()), sum(again.stats.cache_misses.values())) == (1, 0)
    assert again.stats.cache_path == str(load.folder)
    assert names(load.folder) == [".nbc", ".nbc", ".nbi"]


def test_code_keeps_the_globals_of_its_first_compilation(load):
    assert result(load().add, np.ones(1)) == 2
    module = load()
    module.OFFSET = 10
    assert result(module.add, np.ones(1)) == 2
    assert sum(module.add.stats.cache_hits.values()) == 1
    assert result(module.add, np.ones(1, np.int32)) == 2
    module.add.recompile()
    assert result(module.add, np.ones(1)) == 11
    module.OFFSET = 20
    assert result(module.add, np.ones(1)) == 11
    again = load()  # in which OFFSET is 1
    assert result(again.add, np.ones(1)) == 11
    assert result(again.add, np.ones(1, np.int32)) == 11


def test_a_changed_source_has_its_own_globals(load):
    assert result(load().add, np.ones(1)) == 2
    path = load.folder.parent / "cached_program.py"
    path.write_text(TEXT.replace("OFFSET = 1", "OFFSET = 100"))
    linecache.checkcache()
    assert result(load().add, np.ones(1)) == 101


def test_imported_values_are_those_of_each_process(load, monkeypatch):
    path = load.folder.parent / "cached_program.py"
    path.write_text(TEXT.replace("OFFSET = 1", "from cached_values import OFFSET"))
    for value in (1, 10):
        values = types.ModuleType("cached_values")
        values.OFFSET = value
        monkeypatch.setitem(sys.modules, "cached_values", values)
        assert result(load().add, np.ones(1)) == value + 1


def test_functions_of_a_factory_keep_their_own(load):
    path = load.folder.parent / "cached_program.py"
    path.write_text(
        TEXT
        + """
SCALE = 2

@cuda.jit(device=True)
def scaled(x):
    return SCALE * x

def made(offset):
    @cuda.jit(cache=True)
    def add(r, x):
        r[0] = scaled(x[0]) + offset

    return add
"""
    )
    module = load()
    assert [result(module.made(n), np.ones(1)) for n in (1, 2)] == [3, 4]
    module = load()
    module.SCALE = 5
    assert [result(module.made(n), np.ones(1)) for n in (1, 2, 3)] == [3, 4, 8]


def test_a_folder_that_others_can_write_is_not_read(load):
    assert result(load().add, np.ones(1)) == 2
    load.folder.chmod(0o777)
    for file in load.folder.iterdir():
        if file.suffix != ".pyc":
            file.write_bytes(b"cos\nsystem\n(S'false'\ntR.")  # a pickle that starts a program
    add = load().add
    assert result(add, np.ones(1)) == 2
    assert sum(add.stats.cache_hits.values()) == 0
    assert sum(add.stats.cache_misses.values()) == 1


def test_without_it_there_are_no_files(load):
    plain = load().plain
    assert result(plain, np.ones(1)) == 1
    assert not load.folder.exists() or names(load.folder) == []
    assert plain.stats == (None, {}, {})


def test_settings_of_warnings_are_no_part_of_code(load, monkeypatch):
    from numba.core import config

    monkeypatch.setattr(config, "CUDA_LOW_OCCUPANCY_WARNINGS", 0)
    add = load().add
    assert result(add, np.ones(1)) == 2
    assert names(load.folder) == [".nbc", ".nbi"]


def test_what_numba_does_not_cache(load):
    array = cuda.to_device(np.arange(3.0))

    @cuda.jit(cache=True)
    def with_array(out):
        out[0] = array[1]

    with pytest.raises(pickle.PicklingError, match="cannot pickle global device arrays"):
        with_array[1, 1](np.zeros(1))
    with pytest.raises(RuntimeError, match="Cannot pickle CUDACodeLibrary with linking files"):
        cuda.jit("void()", cache=True, link=[cuda.PTXSource("")])(lambda: None)
