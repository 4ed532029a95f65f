"""Entries whose checksum is right and whose contents are somebody's who means harm."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.cache.disk import DiskCache, counters, disk_cache
from kerneldsl.cache.key import Key
from kerneldsl.cache.settings import read_settings
from kerneldsl.contract import Specialization
from kerneldsl.launch.artifact import compile_or_load, find_key
from kerneldsl.placement.registry import get_target
from kerneldsl.tools.cli.app import run
from targets.cpu.runtime.objects import IS_SUPPORTED
from tests.support.extent import full_beyond

Sections = Mapping[str, bytes]
NESTED = b"[" * 100_000
SMALL = b'{"a":' * 50_000


@kd.kernel
def scale(x):
    i = kd.grid(1)
    x[i] = x[i] * 2


def named(name: Any) -> Callable[[Sections], Sections]:
    def change(sections: Sections) -> Sections:
        metadata = {**json.loads(sections["metadata"]), "entry_name": name}
        return {**sections, "metadata": json.dumps(metadata).encode()}

    return change


def with_section(name: str, contents: bytes) -> Callable[[Sections], Sections]:
    return lambda sections: {**sections, name: contents}


def with_object(change: Callable[[bytearray], Any]) -> Callable[[Sections], Sections]:
    def apply(sections: Sections) -> Sections:
        code = bytearray(sections["object"])
        change(code)
        return {**sections, "object": bytes(code)}

    return apply


def with_ptx(old: str, new: str) -> Callable[[Sections], Sections]:
    def apply(sections: Sections) -> Sections:
        text = sections["ptx"].decode()
        assert old in text
        return {**sections, "ptx": text.replace(old, new).encode()}

    return apply


def put(offset: int, form: str, *values: int) -> Callable[[Sections], Sections]:
    return with_object(lambda code: struct.pack_into(form, code, offset, *values))


def cut_to(length: int) -> Callable[[Sections], Sections]:
    return with_object(lambda code: code.__delitem__(slice(length, None)))


METADATA = {
    "nested metadata": with_section("metadata", NESTED),
    "nested objects": with_section("metadata", SMALL),
    "metadata of other types": with_section("metadata", b"[1, 2]"),
    "no name": named(""),
    "a name that is none": named("a\0b"),
    "a number": named(7),
    "another's name": named("malloc"),
    "a name of nothing": named("nothing_of_that_name"),
}
OBJECTS = {
    "no ELF": with_section("object", b"\x7fELF"),
    "empty": with_section("object", b""),
    "32 bits": put(4, "=B", 1),
    "other byte order": put(5, "=B", 2),
    "a program": put(16, "=H", 2),
    "a foreign machine": put(18, "=H", 8),
    "sections beyond the end": put(40, "=Q", 2**63),
    "sections of no size": put(58, "=H", 0),
    "many sections": put(60, "=H", 65535),
    "cut": cut_to(100),
}
PTX = {
    "another architecture": with_ptx(".target sm_90", ".target sm_120"),
    "another version": with_ptx(".version ", ".version 9"),
    "no PTX": with_section("ptx", b""),
}


def replaced(
    folder: Path, target: str, change: Callable[[Sections], Sections]
) -> tuple[Specialization, Key]:
    """Compile a kernel, and put another entry in the place of its own."""
    options: dict[str, Any] = {"target": "cpu"} if target == "cpu" else {"arch": "sm_90"}
    _, specialization = scale.specialization("float64[::1]", **options)
    key = find_key(get_target(target).compiler, specialization)
    cache = DiskCache(read_settings())
    assert compile_or_load(get_target(target).compiler, specialization)[1] == "compiled"
    found = cache.look_up(key)
    assert found is not None
    assert cache.keep(key, change(found.entry.sections))
    counters.reset()
    return specialization, key


@pytest.fixture(autouse=True)
def fresh(folder: Path) -> None:
    assert disk_cache().is_on


@pytest.mark.skipif(not IS_SUPPORTED, reason="no object code is kept here")
@pytest.mark.parametrize("name", full_beyond([*METADATA, *OBJECTS], [*METADATA, *OBJECTS][::3]))
def test_hostile_code_for_the_cpu_is_a_miss(folder: Path, name: str) -> None:
    change = {**METADATA, **OBJECTS}[name]
    specialization, _ = replaced(folder, "cpu", change)
    _, how = compile_or_load(get_target("cpu").compiler, specialization)
    assert how == "compiled"
    assert counters.read().misses == {"unusable": 1}
    with kd.use("cpu"):
        x = np.arange(4.0)
        scale.forall(4)(x)
    assert x.tolist() == [0, 2, 4, 6]


@pytest.mark.parametrize("name", [*METADATA, *PTX])
def test_hostile_ptx_is_a_miss(folder: Path, name: str) -> None:
    specialization, _ = replaced(folder, "null", {**METADATA, **PTX}[name])
    _, how = compile_or_load(get_target("null").compiler, specialization)
    assert how == "compiled"
    assert counters.read().misses == {"unusable": 1}


@pytest.mark.parametrize(
    "made", [NESTED, b'{"compile_s": 1e999}', b'{"compile_s": NaN}', b"[]", b"\xff"]
)
def test_what_is_noted_of_an_entry_is_of_no_consequence(
    folder: Path, made: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    specialization, _ = replaced(folder, "null", with_section("made", made))
    assert compile_or_load(get_target("null").compiler, specialization)[1] == "found"
    assert -1000 < counters.read().saved_s <= 0  # what loading took, and nothing for compiling
    with pytest.raises(SystemExit) as ended:
        run(["cache", "list"])
    assert ended.value.code == 0
    assert capsys.readouterr().out


@pytest.mark.parametrize("encoded", [NESTED, SMALL, b'{"a": 1}', b"\xff", b""])
def test_a_hostile_key_is_an_error_that_is_caught(encoded: bytes) -> None:
    with pytest.raises(ValueError, match=r".*"):
        Key.decode(encoded)


# -- what the environment names ----------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "large"])
def test_a_key_file_that_is_none_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    path = tmp_path / "key"
    if kind == "pipe":
        os.mkfifo(path, 0o600)
    elif kind == "device":
        path = Path("/dev/zero")
    elif kind == "folder":
        path.mkdir(mode=0o700)
    else:
        path.write_bytes(b" " * 2**20)
        path.chmod(0o600)
    monkeypatch.setenv("KERNELDSL_CACHE_KEY_FILE", str(path))
    with pytest.warns(kd.CacheWarning, match=str(path)):
        assert not DiskCache(read_settings()).is_on


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_manifest_that_is_a_pipe_is_no_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kerneldsl.tools.detection import probes

    os.mkfifo(tmp_path / "driver.json")
    (tmp_path / "nested.json").write_bytes(NESTED)
    names = (str(tmp_path / name) for name in ("driver.json", "nested.json"))
    monkeypatch.setenv("VK_DRIVER_FILES", os.pathsep.join(names))
    assert list(probes._vulkan_drivers()) == []
