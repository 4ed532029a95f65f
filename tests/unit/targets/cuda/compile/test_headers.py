"""Which headers a source of CUDA C++ includes, and their digest."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from targets.cuda.compile import headers
from targets.cuda.compile.headers import included_files, includes_digest, toolkit_headers
from targets.cuda.compile.nvrtc import nvrtc_version


def _write(folder: Path, **texts: str) -> str:
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.h").write_text(text)
    return str(folder)


def test_headers_of_headers_are_found(tmp_path: Path) -> None:
    first = _write(tmp_path / "first", a='#include "b.h"\n', b="  #  include <c.h>\n")
    second = _write(tmp_path / "second", c="#define X 1", b="hidden by the first folder's")
    found = included_files('#include "a.h"\n#include <cuda_of_nvrtc.h>', None, [first, second])
    names = {os.path.relpath(path, tmp_path) for path in found if path.startswith("/")}
    assert names == {"first/a.h", "first/b.h", "second/c.h"}
    assert found["cuda_of_nvrtc.h"] is None


def test_quotation_marks_search_beside_the_source_first(tmp_path: Path) -> None:
    beside, other = _write(tmp_path / "x", a="1"), _write(tmp_path / "y", a="2")
    assert list(included_files('#include "a.h"', beside, [other])) == [f"{beside}/a.h"]
    assert list(included_files("#include <a.h>", beside, [other])) == [f"{other}/a.h"]


def test_a_line_may_go_on(tmp_path: Path) -> None:
    folder = _write(tmp_path / "x", a="1")
    assert included_files("#include \\\n  <a.h>", None, [folder]).keys() == {f"{folder}/a.h"}


@pytest.mark.parametrize("place", ["option", "text", "header"])
def test_a_macro_in_place_of_a_name(tmp_path: Path, place: str) -> None:
    folder = _write(tmp_path / "x", a="1", config="#define WANTED <a.h>\n")
    before = {"option": "", "text": '#define WANTED "a.h"\n', "header": "#include <config.h>\n"}
    macros = [("WANTED", '"a.h"')] if place == "option" else []
    found = included_files(before[place] + "#include WANTED\n", None, [folder], macros)
    assert f"{folder}/a.h" in found


def test_a_macro_that_is_not_seen_is_told(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="WANTED"):
        included_files("#define WANTED NAME(a)\n#include WANTED\n", None, [])


def test_the_digest_changes_with_a_header(tmp_path: Path) -> None:
    folder = _write(tmp_path / "x", a='#include "b.h"', b="int x = 1;")
    digests = [includes_digest("#include <a.h>", None, [folder])]
    assert includes_digest("#include <a.h>", None, [folder]) == digests[0]
    (tmp_path / "x" / "b.h").write_text("int x = 2;")
    digests.append(includes_digest("#include <a.h>", None, [folder]))
    earlier = _write(tmp_path / "earlier", b="int x = 1;")
    digests.append(includes_digest("#include <a.h>", None, [earlier, folder]))
    (tmp_path / "x" / "b.h").unlink()
    digests.append(includes_digest("#include <a.h>", None, [folder]))
    assert len(set(digests[:2])) == 2
    assert digests[3] not in digests[:2]


def test_headers_of_the_toolkit_count_as_a_whole(tmp_path: Path) -> None:
    folder, own = tmp_path / "include", tmp_path / "own"
    (folder / "cub").mkdir(parents=True)
    own.mkdir()
    header = folder / "cub" / "cub.cuh"
    header.write_text("#define NAME(x) <x>\n#include NAME\n")
    (folder / "other.h").write_text("#define A 1")
    text = "#include <cub/cub.cuh>"

    def digest(text: str = text) -> str:
        return includes_digest(text, None, [str(own)], [str(folder)])

    found = [digest()]
    assert digest() == found[0]
    header.write_text(header.read_text().replace("x", "y"))  # the same size
    found.append(digest())
    (folder / "other.h").write_text("#define A 2")
    found.append(digest())
    (folder / "cub" / "new.cuh").write_text("")
    found.append(digest())
    assert len(set(found)) == 4
    assert digest("int x;") not in found
    # A header of the user's may hide one that a header of the toolkit includes: these are read.
    (own / "cub").mkdir()
    with pytest.raises(LookupError, match="NAME"):
        digest()


def test_a_folder_that_is_more_than_a_toolkit_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = _write(tmp_path / "include", a='#include "b.h"', b="1", c="1", d="1")
    monkeypatch.setattr(headers, "_MAX_INSTALLED", 3)
    found = included_files("#include <a.h>", None, [folder], (), [folder])
    assert {path for path in found if found[path]} == {f"{folder}/a.h", f"{folder}/b.h"}


def test_the_installed_toolkit_is_not_followed() -> None:
    folders = toolkit_headers(nvrtc_version()[0])
    text = "#include <cub/cub.cuh>\n#include <cuda_fp16.h>"
    assert set(included_files(text, None, folders, (), folders)) <= set(folders)


def test_headers_that_include_each_other_end(tmp_path: Path) -> None:
    folder = _write(tmp_path / "x", a='#include "b.h"', b='#include "a.h"')
    assert len(included_files('#include "a.h"', None, [folder])) == 2


def test_the_toolkit_has_headers_of_cub() -> None:
    folders = toolkit_headers(nvrtc_version()[0])
    found = included_files("#include <cub/block/block_reduce.cuh>", None, folders)
    assert sum(digest is not None for digest in found.values()) > 50
