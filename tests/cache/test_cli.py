"""``kerneldsl cache`` and ``kerneldsl warm``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.cache.disk import disk_cache
from kerneldsl.cache.inventory import find_nearest
from kerneldsl.cache.key import Key
from kerneldsl.tools.cli import app
from kerneldsl.tools.cli.worker import described_gpu
from targets.cuda.device.described import _CARDS
from targets.null.target import NullTarget
from tests.cache.programs import run_script
from tests.cache.trials import key_of, sections_of
from tests.support.extent import full_beyond, sample

pytestmark = pytest.mark.usefixtures("own_modules")

SCRIPT = """
import sys
import numpy as np
import kerneldsl as kd

@kd.kernel
def axpy(a, x, y):
    i = kd.grid(1)
    if i < y.size:
        y[i] = a * x[i] + y[i]

@kd.kernel
def checked(x):
    x[kd.grid(1)] = 1

if __name__ == "__main__":
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    axpy.forall(n)(np.float32(2), np.ones(n, np.float32), np.ones(n, np.float32))
"""


@pytest.fixture
def call(capsys):
    """Run the command line, and return what it printed."""

    def run(*arguments: object, status: int = 0) -> str:
        with pytest.raises(SystemExit) as ended:
            app.run([str(a) for a in arguments])
        printed = capsys.readouterr()
        assert (ended.value.code or 0) == status, printed.err
        return printed.err if status == 2 else printed.out

    return run


def fill(count: int = 3) -> None:
    for number in range(count):
        assert disk_cache().keep(key_of(number), sections_of(key_of(number)))


def test_info(call, folder: Path, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "1000")  # a long path is not broken into lines
    fill()
    assert str(folder) in call("cache", "info")
    found = json.loads(call("cache", "info", "--json"))
    assert (found["is_on"], found["folder"], found["entries"]) == (True, str(folder), 3)
    assert found["max_bytes"] == 2**30
    monkeypatch.setenv("KERNELDSL_CACHE", "off")
    assert not json.loads(call("cache", "info", "--json"))["is_on"]


def test_list_and_show(call) -> None:
    fill()
    listed = json.loads(call("cache", "list", "--json"))["entries"]
    assert {e["digest"] for e in listed} == {key_of(n).digest for n in range(3)}
    assert key_of(1).digest[:12] in call("cache", "list")
    shown = json.loads(call("cache", "show", key_of(1).digest[:10], "--json"))
    assert shown["components"] == dict(key_of(1).components)
    assert "sm_90" in call("cache", "show", key_of(1).digest)
    assert "no section" in call("cache", "show", key_of(1).digest, "-s", "none", status=2)
    assert "no entries begin with" in call("cache", "show", "xyz", status=2)
    assert "3 entries begin with" in call("cache", "show", "", status=2)


def test_a_section(folder: Path, capfdbinary) -> None:
    fill(1)
    with pytest.raises(SystemExit):
        app.run(["cache", "show", key_of(0).digest, "--section", "ptx"])
    assert capfdbinary.readouterr().out.startswith(key_of(0).digest.encode())


def test_verify(call, folder: Path) -> None:
    fill(2)
    assert json.loads(call("cache", "verify", "--json"))["sound"] == 2
    path = folder / "entries" / f"{key_of(0).digest}.kdc"
    path.write_bytes(path.read_bytes()[:-1])
    assert json.loads(call("cache", "verify", "--json", status=1))["quarantined"] == 1
    assert "sound" in call("cache", "verify")


def test_clear_prune_export_import(call, tmp_path: Path) -> None:
    fill(5)
    assert call("cache", "export", tmp_path / "file.tar").startswith("5 entries")
    assert call("cache", "clear") == "5 entries removed\n"
    (tmp_path / "none").write_text("not an archive")
    assert "not an archive" in call("cache", "import", tmp_path / "none", status=2)
    assert call("cache", "import", tmp_path / "file.tar") == "5 entries imported\n"
    assert call("cache", "prune", "1k") == "3 entries removed\n"
    assert "error: SIZE is 'many'" in call("cache", "prune", "many", status=2)


def test_an_unsafe_folder(call, folder: Path) -> None:
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    assert "written to by others" in call("cache", "clear", status=2)


# ----------------------------------------------------------------------- explain-miss


def test_the_nearest_entry_differs_in_the_fewest_parts() -> None:
    from kerneldsl import cache

    assert find_nearest(key_of(0), ()) is None
    for arch in ("sm_80", "sm_90"):
        key = Key({"kernel": "k1", "arch": arch, "old": "1"})
        assert disk_cache().keep(key, sections_of(key))
    nearest = find_nearest(Key({"kernel": "k1", "arch": "sm_90", "new": "2"}), cache.entries())
    assert nearest is not None
    assert [(d.component, d.wanted, d.found) for d in nearest.differences] == [
        ("new", "2", None),
        ("old", None, "1"),
    ]


def test_explain_miss(call, tmp_path: Path) -> None:
    script = tmp_path / "explained.py"
    script.write_text(SCRIPT)
    asked = ("cache", "explain-miss", f"{script}:axpy", "--arch", "sm_90")
    signature = ("-s", "float32, float32[::1], float32[::1]")
    assert "empty" in call(*asked, *signature)
    compiled = f"from explained import axpy\nresult = len(axpy.ptx({signature[1]!r}, arch='sm_90'))"
    assert run_script(tmp_path / "compile.py", compiled)["writes"] == 1
    assert "There is an entry" in call(*asked, *signature)
    found = json.loads(call(*asked, "-s", "float32, float32[:], float32[::1]", "--json"))
    (difference,) = found["nearest"]["differences"]
    assert difference["component"] == "signature"
    # Another length: within a second, Python takes compiled modules of the same length for current.
    script.write_text(SCRIPT.replace("a * x[i]", "a - 2 * x[i]"))
    assert "function axpy" in call(*asked, *signature)
    assert "names no kernel" in call("cache", "explain-miss", "axpy", status=2)


@pytest.mark.parametrize("arrays", full_beyond(["device", "NumPy"], ["device"]))
def test_explain_miss_of_a_planned_launch(call, tmp_path: Path, arrays: str) -> None:
    """What forall compiled is named, for arrays of either kind; without an extent, but for that."""
    place = "kd.to_device" if arrays == "device" else "np.asarray"
    launch = f"""
import numpy as np
import kerneldsl as kd
from planned import axpy
n = 1 << 22
with kd.use("null"):
    x, y = ({place}(np.ones(n, np.float32)) for _ in range(2))
    axpy.forall(n)(np.float32(2), x, y)
result = kd.cache.entries()[0].components["mapping.vector"]
"""
    script = tmp_path / "planned.py"
    script.write_text(SCRIPT)
    made = run_script(tmp_path / "launch.py", launch)
    assert made["writes"] >= 1
    asked = ("cache", "explain-miss", f"{script}:axpy", "--arch", "sm_90")
    asked += ("-s", "float32, float32[::1], float32[::1]")
    found = call(*asked, "--extent", 1 << 22)
    assert "There is an entry" in found
    assert "Not compared" not in found
    found = json.loads(call(*asked, "--extent", 1 << 22, "--json"))
    assert found["key"] == found["nearest"]["digest"]
    assert found["left_out"] == []
    rank_alone = call(*asked, "--forall", 1)
    assert "There is an entry" in rank_alone
    assert "Not compared: mapping and promises" in rank_alone
    assert "calls kd.grid(1)" in call(*asked, "--extent", "2048,2048", status=2)
    assert "ints with commas" in call(*asked, "--extent", "many", status=2)


SPACED = """
import kerneldsl as kd
import numpy as np

@kd.kernel(space=kd.Space(block=[64, 128], items=[1, 2], covers=lambda c: c.block * c.items))
def turned(x, *, block, items):
    cells = kd.shared.array(128, np.float32)
    t = kd.threadIdx.x
    for k in range(items):
        i = (kd.blockIdx.x * items + k) * block + t
        if i < x.size:
            cells[t] = x[i]
        kd.syncthreads()
        if i < x.size:
            x[i] = 2 * cells[t]
        kd.syncthreads()
"""


@pytest.mark.full
@pytest.mark.parametrize("place", full_beyond(["null", "cpu"], ["cpu"]))
def test_explain_miss_of_a_kernel_with_a_space(call, tmp_path: Path, place: str) -> None:
    """The member is planned as the launch plans it."""
    script = tmp_path / "spaced.py"
    script.write_text(SPACED)
    launch = f"""
import numpy as np
import kerneldsl as kd
from spaced import turned
with kd.use("{place}"):
    x = kd.to_device(np.ones(100_000, np.float32))
    turned.forall(x.size)(x)
result = 1
"""
    target = ("--arch", "sm_90") if place == "null" else ("--target", "cpu")
    asked = ("cache", "explain-miss", f"{script}:turned", *target, "-s", "float32[::1]")
    assert "empty" in call(*asked, "--extent", 100_000)
    assert run_script(tmp_path / "launch.py", launch)["writes"] >= 1
    assert "There is an entry" in call(*asked, "--extent", 100_000)
    refusal = call(*asked, "--extent", 100_000, "--block", 64, status=2)
    assert "has a space" in refusal
    assert "name a member" in refusal


def test_explaining_makes_no_entry(call, tmp_path: Path) -> None:
    script = tmp_path / "asked.py"
    script.write_text(SCRIPT)
    signature = ("-s", "float32, float32[::1], float32[::1]")
    for _ in range(2):
        assert "empty" in call(
            *("cache", "explain-miss", f"{script}:axpy", "-a", "sm_80", "-e", 1 << 22), *signature
        )


def test_explain_miss_of_what_is_never_kept(call, tmp_path: Path) -> None:
    script = tmp_path / "never.py"
    script.write_text(
        SCRIPT.replace("@kd.kernel\ndef checked", "@kd.kernel(debug=True)\ndef checked")
    )
    asked = ("cache", "explain-miss", f"{script}:checked", "-s", "float32[:]")
    assert "debug mode" in call(*asked, status=2)


# ------------------------------------------------------------------------------ warm


def test_warm(call, tmp_path: Path, monkeypatch) -> None:
    """What is compiled for an architecture here serves a GPU of it elsewhere."""
    monkeypatch.delenv("KERNELDSL_CACHE", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[2]))
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    rows = [line.split() for line in call("warm", script, "5000", "-a", "sm_90").splitlines()[2:]]
    assert rows == [["sm_90", "0", "1", "0"]]
    rows = [line.split() for line in call("warm", script, "5000", "-a", "sm_90").splitlines()[2:]]
    assert rows == [["sm_90", "1", "0", "0"]]
    # The code, and the work that the plan was made by.
    entries = json.loads(call("cache", "list", "--json"))["entries"]
    assert {each["components"]["target"] for each in entries} == {"cuda"}
    assert {each["made"]["kernel"] for each in entries} == {"__main__.axpy"}
    found = [each["components"].get("architecture") for each in entries]
    assert sorted(found, key=str) == [None, "sm_90"]


@pytest.fixture
def null() -> Iterator[NullTarget]:
    target: Any = kd.get_target("null")
    before = target.devices()
    yield target
    target.set_devices(*before)
    target.reset()


@kd.kernel
def triad(a, x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


@kd.kernel
def scale(x, out):
    i, j = kd.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = 2 * x[i, j]


@pytest.mark.parametrize("arch", sample([f"sm_{major}{minor}" for major, minor in _CARDS], 3))
def test_warm_plans_as_for_a_card_of_the_architecture(arch: str, null: NullTarget) -> None:
    """Of its size and speed, not of an H100's."""
    null.set_devices(described_gpu(arch, null.devices()[0]))
    flat, square = 1 << 24, (2048, 4096)
    with kd.use("null"):
        x, y, out = (kd.to_device(np.zeros(flat, np.float32)) for _ in range(3))
        a, b = (kd.to_device(np.zeros(square, np.float32)) for _ in range(2))
        warmed = [
            triad.forall(flat).plan(np.float32(1), x, y, out),
            scale.forall(*square).plan(a, b),
        ]
    described = [
        triad.forall(flat).plan("float32, float32[::1], float32[::1], float32[::1]", arch=arch),
        scale.forall(*square).plan("float32[:, ::1], float32[:, ::1]", arch=arch),
    ]
    for ours, theirs in zip(warmed, described, strict=True):
        assert ours.arch == theirs.arch == arch
        assert (ours.grid_dim, ours.block_dim) == (theirs.grid_dim, theirs.block_dim)
        assert ours.mapping == theirs.mapping


@pytest.mark.full
def test_a_launch_on_such_a_card_finds_what_was_warmed(call, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.delenv("KERNELDSL_CACHE", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[2]))
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.replace("np.ones(n, np.float32)", "kd.to_device(np.ones(n, 'f4'))"))
    n = 1 << 24
    call("warm", script, n, "-a", "sm_80", "-a", "sm_100")
    launch = """
import numpy as np
import kerneldsl as kd
from targets.cuda.device.described import described_device
from script import axpy
null, result = kd.get_target("null"), []
for arch in ("sm_80", "sm_100"):
    null.set_devices(described_device(arch))
    with kd.use("null"):
        x, y = (kd.to_device(np.ones(1 << 24, np.float32)) for _ in range(2))
        axpy.forall(1 << 24)(np.float32(2), x, y)
"""
    found = run_script(tmp_path / "launch.py", launch)
    assert (found["hits"], found["misses"]) == (2, {})
    for arch in ("sm_80", "sm_100"):  # as a real card's key is made
        asked = ("cache", "explain-miss", f"{script}:axpy", "-a", arch, "-e", n)
        assert "There is an entry" in call(*asked, "-s", "float32, float32[::1], float32[::1]")


@pytest.mark.full
def test_a_script_finds_what_lies_beside_it(call, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.delenv("KERNELDSL_CACHE", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[2]))
    folder = tmp_path / "program"
    folder.mkdir()
    (folder / "kernels.py").write_text(SCRIPT)
    script = folder / "main.py"
    script.write_text(
        "import sys, numpy as np\nfrom kernels import axpy\n"
        "assert sys.argv[1:] == ['-x', '2'], sys.argv\n"
        "axpy.forall(9)(np.float32(2), np.ones(9, np.float32), np.ones(9, np.float32))\n"
    )
    rows = call("warm", "-a", "sm_90", script, "--", "-x", "2").splitlines()[2:]
    assert [row.split()[:3] for row in rows] == [["sm_90", "0", "1"]]


def test_warm_of_what_fails(call, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.delenv("KERNELDSL_CACHE", raising=False)
    assert "no file" in call("warm", tmp_path / "none.py", status=2)
    script = tmp_path / "script.py"
    script.write_text("raise SystemExit(3)")
    assert "status 3" in call("warm", script, status=2)
    assert "arch is 'sm_60'" in call("warm", script, "-a", "sm_60", status=2)
    monkeypatch.setenv("KERNELDSL_CACHE", "off")
    assert "the cache is off" in call("warm", script, status=2)
