"""What the documentation site is made of: the reference, the pages, the check of links."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path

import pytest

import kerneldsl as kd
from docs.site.api import documented_name, most_used, pages, public_names
from docs.site.examples import example_page, families
from docs.site.links import broken_links
from docs.site.stage import PAGES_OF_FOLDERS, ROOT, _notebook_with_links, stage, staged_pages
from kerneldsl.language.intrinsics.intrinsic import Intrinsic, IntrinsicGroup

CONTENTS = "".join(
    (ROOT / "docs" / "site" / f"{name}.txt").read_text(encoding="utf-8")
    for name in ("front-page", "developers")
)
ENTRY = re.compile(
    r"^\.\. (?:autofunction|autoclass|py:(?!currentmodule)\w+):: ([\w.]+)", re.MULTILINE
)


def test_every_public_name_has_one_entry():
    entries = [name for page in pages() for name in ENTRY.findall(page.text())]
    assert len(entries) == len(set(entries))
    assert public_names() - set(entries) == set()
    for name in ("kerneldsl.atomic.add", "kerneldsl.random.philox", "kerneldsl.ballot_sync"):
        assert name in entries


def test_kernels_of_the_library_are_in_the_reference():
    kernels = {name: value for page in pages() for name, value in page.kernels.items()}
    assert "stdlib_kernels.scan.calls.sum_chain" in kernels
    undocumented = [name for name, value in kernels.items() if not inspect.getdoc(value)]
    assert not undocumented


@pytest.mark.parametrize(
    ("dotted", "expected"),
    [
        ("kerneldsl.kernels.kernel.Kernel", "kerneldsl.Kernel"),
        ("kerneldsl.memory.arrays.DeviceArray.copy_to_host", "kerneldsl.DeviceArray.copy_to_host"),
        ("kerneldsl.grid", "kerneldsl.grid"),
        ("kerneldsl.launch.dispatch", None),
        ("kerneldsl.nothing", None),
    ],
)
def test_what_a_docstring_names_is_found(dotted, expected):
    assert documented_name(dotted) == expected


def test_every_page_is_in_the_contents():
    listed = re.findall(r"^(?:.* <)?([\w/.-]+?)>?$", CONTENTS, re.MULTILINE)
    for page in staged_pages():
        if page.parent.name not in ("adr", "notebooks") or page.name == "README.md":
            assert listed.count(page.with_suffix("").as_posix()) == 1, f"{page}, in front-page.txt"


def test_pages_of_folders_are_pages():
    made = {"index.md", "examples/index.md", "gallery.md"}
    for folder, page in PAGES_OF_FOLDERS.items():
        assert (ROOT / folder).exists()
        assert Path(page) in staged_pages() or page in made


def test_the_page_of_examples_has_them_all():
    page = example_page()
    for file in (ROOT / "examples").glob("*.py"):
        assert f"\n## {file.stem}\n" in page


@pytest.mark.parametrize("family", families().values(), ids=lambda family: family.file.stem)
def test_the_example_of_a_family_prints_what_its_page_shows(family, capsys):
    with kd.use("cpu"):
        exec(compile(family.file.read_text(), str(family.file), "exec"), {"__name__": "page"})
    assert capsys.readouterr().out.strip() == family.printed.strip()


def test_every_family_of_intrinsics_has_an_example():
    pages_of_intrinsics = {
        page.name
        for page in pages()
        if any(isinstance(value, Intrinsic | IntrinsicGroup) for value in page.objects.values())
    }
    assert pages_of_intrinsics <= set(families())
    assert set(families()) <= {page.name for page in pages()}


def test_families_of_the_library_have_titles_of_words():
    titles = {page.name: page.title for page in pages() if page.name.startswith("stdlib_kernels.")}
    assert next(iter(titles)) == "stdlib_kernels.reduce"
    for name, title in titles.items():
        assert title.endswith(f" ({name.rpartition('.')[2]})")


def test_names_that_are_used_most_come_first():
    first = pages()[0]
    assert list(first.objects)[:3] == ["kerneldsl.kernel", "kerneldsl.func", "kerneldsl.Kernel"]
    assert "Kernel.forall <kerneldsl.Kernel.forall>" in most_used()


def test_programs_in_two_languages_are_put_side_by_side(tmp_path):
    stage(tmp_path / "source")
    for origin in ("numba-cuda", "cuda-c", "triton"):
        page = (tmp_path / "source" / "docs" / f"coming-from-{origin}.md").read_text("utf-8")
        assert page.count("::::{container} beside\n```") >= 1
    front = (tmp_path / "source" / "index.md").read_text("utf-8")
    assert "make check" not in front
    assert (tmp_path / "source" / "docs" / "pictures" / "julia.webp").exists()
    assert not (tmp_path / "source" / "README.md").exists()


def test_notebooks_bring_what_their_prose_links_to(tmp_path):
    cells = [
        {"cell_type": "markdown", "source": ["[one](../examples/heat.py) ", "[all](../examples)"]},
        {"cell_type": "code", "source": "# [one](../examples/axpy.py)"},
    ]
    page = Path("notebooks/one.ipynb")
    staged = json.loads(_notebook_with_links(json.dumps({"cells": cells}), page, tmp_path))
    assert staged["cells"][0]["source"] == "[one](../examples/heat.py) [all](/examples/index.md)"
    assert staged["cells"][1] == cells[1]
    assert (tmp_path / "examples" / "heat.py").exists()
    assert not (tmp_path / "examples" / "axpy.py").exists()


def test_links_that_lead_nowhere_are_found(tmp_path):
    (tmp_path / "a.html").write_text(
        '<h1 id="here"></h1><a href="#here"></a><a href="b.html#there"></a><img src="none.png">\n'
        '<a href="b.html#gone"></a><a href="../out.html"></a><a href="https://example.org"></a>'
    )
    (tmp_path / "b.html").write_text('<p id="there"></p><a href="#nowhere"></a>')
    assert broken_links(tmp_path) == [
        "a.html:1: none.png: no such page or file",
        "a.html:2: b.html#gone: no such anchor",
        "a.html:2: ../out.html: leads out of the site",
        "b.html:1: #nowhere: no such anchor",
    ]
