"""NVRTC is identified by its file, without loading it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from targets.cuda.compile import nvrtc as module
from targets.cuda.compile.nvrtc import nvrtc_identity, nvrtc_version

MAPS = "7f00-7f10 r-xp 00000000 00:01 77 {path}\n7f10-7f20 rw-p 00000000 00:00 0\n"


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A library that is found, and that nothing has loaded."""
    folder = tmp_path / "lib"
    folder.mkdir()
    made = folder / "libnvrtc.so.13.0.88"
    made.write_bytes(b"code")
    (folder / "libnvrtc-builtins.so.13.0").write_bytes(b"functions")
    (folder / "libnvrtc.so.13").symlink_to(made.name)
    monkeypatch.setattr(module, "wheel_directories", lambda: [])
    monkeypatch.setattr(module, "_MAPS", tmp_path / "maps")
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/nowhere:{folder}")
    return made


def test_the_installed_library_is_the_one_that_is_loaded() -> None:
    before = nvrtc_identity()
    major, _ = nvrtc_version()
    assert before.startswith(f"libnvrtc.so.{major}")
    assert nvrtc_identity() == before


def test_loading_it_changes_nothing(library: Path, tmp_path: Path) -> None:
    found = nvrtc_identity()
    assert found.startswith("libnvrtc.so.13.0.88 ")
    (tmp_path / "maps").write_text(MAPS.format(path=library))
    assert nvrtc_identity() == found


@pytest.mark.parametrize("name", ["libnvrtc.so.13.0.88", "libnvrtc-builtins.so.13.0"])
def test_a_changed_file_is_another_identity(library: Path, name: str) -> None:
    found = nvrtc_identity()
    file = library.parent / name
    file.write_bytes(file.read_bytes()[::-1])
    assert nvrtc_identity() != found


def test_another_library_that_is_loaded_counts(library: Path, tmp_path: Path) -> None:
    found = nvrtc_identity()
    other = tmp_path / "libnvrtc.so.12"
    other.write_bytes(b"another program's")
    (tmp_path / "maps").write_text(MAPS.format(path=other))
    both = nvrtc_identity()
    assert found in both
    assert "libnvrtc.so.12 " in both


def test_a_library_that_was_replaced_is_not_identified(library: Path, tmp_path: Path) -> None:
    (tmp_path / "maps").write_text(MAPS.format(path=f"{library} (deleted)"))
    with pytest.raises(LookupError, match="replaced"):
        nvrtc_identity()


def test_the_linkers_cache_is_searched(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = tmp_path / "ld.so.cache"
    listed.write_bytes(
        b"glibc-ld.so.cache1.1\0libnvrtc.so.13\0%s/libnvrtc.so.13\0"
        % (str(library.parent).encode())
    )
    monkeypatch.delenv("LD_LIBRARY_PATH")
    monkeypatch.setattr(module, "_LINKER_CACHE", listed)
    monkeypatch.setattr(module, "toolkit_directories", lambda: [])
    assert nvrtc_identity().startswith("libnvrtc.so.13.0.88 ")


def test_a_toolkits_folder_is_searched_last(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toolkit = tmp_path / "toolkit"
    (toolkit / "lib64").mkdir(parents=True)
    (toolkit / "lib64" / "libnvrtc.so.12").write_bytes(b"older")
    monkeypatch.setattr(module, "toolkit_directories", lambda: [toolkit])
    monkeypatch.setattr(module, "_LINKER_CACHE", tmp_path / "none")
    assert nvrtc_identity().startswith("libnvrtc.so.13.0.88 ")
    monkeypatch.delenv("LD_LIBRARY_PATH")
    assert nvrtc_identity().startswith("libnvrtc.so.12 ")


def test_the_library_that_is_found_is_loaded(tmp_path: Path) -> None:
    """Packages may be in a folder that a .pth file names, where the bindings do not look."""
    wheel = next(iter(module.wheel_directories()), None)
    found = module.find_library()
    if wheel is None or found is None or wheel not in found.parents:
        pytest.fail("NVRTC is not installed by pip: install nvidia-cuda-nvrtc")
    folder = tmp_path / "nvidia" / "cu13" / "lib"
    folder.mkdir(parents=True)
    for each in found.parent.glob("libnvrtc*"):
        shutil.copy(each, folder)
    program = f"""
from pathlib import Path
from targets.cuda.compile import nvrtc
nvrtc.wheel_directories = lambda: [Path({str(tmp_path / "nvidia")!r})]
from targets.cuda.compile.nvrtc import nvrtc_version
from targets.cuda.compile.nvrtc import nvrtc_identity
before = nvrtc_identity()
nvrtc_version()
print(before == nvrtc_identity(), *nvrtc.loaded_libraries())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["True", str(folder / found.name)]
