"""Every notebook runs from top to bottom, and shows what is stored in it."""

from __future__ import annotations

import copy
import json
import re
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.notebooks.comparison import code_cells, differences, pictures_of, text_of
from tests.notebooks.execution import NOTEBOOKS, ROOT, execute, stored_form
from tests.support.extent import full_beyond

nbformat = pytest.importorskip("nbformat", reason="the notebook extra is not installed")
pytest.importorskip("nbclient", reason="the notebook extra is not installed")
pytest.importorskip("ipykernel", reason="the notebook extra is not installed")

COURSE = [
    "01-first-kernel",
    "02-indexing-and-guards",
    "03-shared-memory-and-barriers",
    "04-planning-and-occupancy",
    "05-coalescing-and-banks",
    "06-matmul-on-a-roofline",
    "07-reductions-and-atomics",
    "08-from-threads-to-tiles",
    "09-an-equation-that-moves",
    "10-image-pipeline",
    "11-debugging",
    "12-one-product-two-machines",
]
#: Of a quick run.
QUICK = {"01-first-kernel"}
#: Of the whole folder, so that a clone stays small.
MAX_BYTES = 2_500_000
MAX_PICTURE_BYTES = 300_000


@cache
def stored(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def shown(name: str, source: str) -> str:
    """Text that the cell with this source in it shows."""
    notebook = stored(ROOT / "notebooks" / f"{name}.ipynb")
    (cell,) = [each for each in code_cells(notebook) if source in each.source]
    return text_of(cell)


def test_the_course_has_these_notebooks():
    assert [path.stem for path in NOTEBOOKS] == COURSE


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "path",
    full_beyond(NOTEBOOKS, [path for path in NOTEBOOKS if path.stem in QUICK]),
    ids=lambda path: path.stem,
)
def test_shows_what_is_stored(path):
    pytest.importorskip("matplotlib", reason="the plots extra is not installed")
    assert not differences(stored(path), stored_form(execute(path, answers=True)))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
class TestStored:
    def test_was_executed_from_top_to_bottom(self, path):
        notebook = stored(path)
        nbformat.validate(notebook)
        counts = [cell.execution_count for cell in code_cells(notebook)]
        assert counts == [*range(1, len(counts) + 1)]
        kinds = {output.output_type for cell in code_cells(notebook) for output in cell.outputs}
        assert "error" not in kinds
        assert kinds

    def test_is_written_as_it_is_stored_again(self, path):
        text = path.read_text(encoding="utf-8")
        again = stored_form(copy.deepcopy(stored(path)))
        assert nbformat.writes(again) + "\n" == text

    def test_names_no_place_of_a_machine(self, path):
        text = path.read_text(encoding="utf-8")
        assert not re.findall(r'(?:/tmp|/home|/root|/usr|/work|/var|/opt)/[^\s"\\]*', text)
        assert not re.findall(r"ipykernel_\w+|site-packages|0x[0-9a-f]{9,}", text)
        assert set(json.loads(text)["metadata"]) == {"kernelspec", "language_info"}

    def test_every_picture_has_a_caption(self, path):
        cells = stored(path).cells
        captions = []
        for cell, following in pairwise([*cells, nbformat.v4.new_markdown_cell()]):
            if cell.cell_type == "code" and pictures_of(cell):
                captions.append(re.match(r"\*\*Figure (\d+)\.\*\* \S", following.source))
        assert all(captions)
        assert [int(each[1]) for each in captions] == [*range(1, len(captions) + 1)]

    def test_asks_and_answers(self, path):
        prose = "\n".join(c.source for c in stored(path).cells if c.cell_type == "markdown")
        assert re.search("^## Questions$|^## Exercises$", prose, re.MULTILINE)
        assert prose.count("<details>") == prose.count("</details>") >= 2

    def test_is_small(self, path):
        pictures = [each for cell in code_cells(stored(path)) for each in pictures_of(cell)]
        assert max(map(len, pictures), default=0) <= MAX_PICTURE_BYTES


def test_the_folder_is_small():
    assert sum(path.stat().st_size for path in NOTEBOOKS) <= MAX_BYTES


class TestDifferences:
    """The comparison finds what it is there to find."""

    def notebook(self) -> Any:
        return copy.deepcopy(stored(NOTEBOOKS[0]))

    def test_none_from_itself(self):
        assert not differences(self.notebook(), self.notebook())

    def test_another_text(self):
        other = self.notebook()
        (cell,) = [each for each in code_cells(other) if "axpy.ptx(" in each.source]
        cell.outputs[0].text += "one line more"
        assert [each.split()[0] for each in differences(self.notebook(), other)] == [cell.id]

    def test_a_text_of_a_cell_that_varies(self):
        other = self.notebook()
        (cell,) = [c for c in code_cells(other) if c.metadata.get("tags") == ["varies"]][:1]
        cell.outputs[0].data["text/html"] = "another time"
        assert not differences(self.notebook(), other)

    def test_an_output_that_is_gone(self):
        other = self.notebook()
        cell = next(c for c in code_cells(other) if c.metadata.get("tags") == ["varies"])
        cell.outputs.clear()
        (found,) = differences(self.notebook(), other)
        assert found.startswith(f"{cell.id} shows []")


def test_first_kernel():
    name = "01-first-kernel"
    ptx = shown(name, "axpy.ptx(")
    assert ".target sm_90" in ptx
    assert ".visible .entry axpy" in ptx
    assert shown(name, "reverse_blocks.cpu_source(").count("row[axis=x]") == 2
    assert "a launch" in shown(name, ".time(")
    refusal = shown(name, "half_a_barrier[1, 128]")
    assert "first_half" in refusal
    assert "kd.syncthreads()" in refusal
    assert "'out'" in shown(name, "[0.0] * out.size")


def test_from_threads_to_tiles():
    name = "08-from-threads-to-tiles"
    for kernel in ("by_threads", "by_groups", "by_tiles"):
        assert shown(name, f"{kernel}[len(x)") == "as NumPy's\n"
    ptx = shown(name, "by_tiles.ptx(")
    assert "ld.global.v4.b32" in ptx
    assert "st.global.v4.b32" in ptx


def test_planning_and_occupancy():
    plan = shown("04-planning-and-occupancy", "plan.explain()")
    assert "H100" in plan
    assert "plans were compared" in plan


def test_coalescing_and_banks():
    name = "05-coalescing-and-banks"
    sectors = dict(re.findall(r"^(\w+) .*: ([\d.]+) sectors", shown(name, "explained = {"), re.MULTILINE))
    assert sectors == {"copy": "4.0", "every_fourth": "16.0", "blocked": "32.0", "shifted": "5.0"}
    assert "Make the array (32, 33)" in shown(name, "def transpose(")


def test_each_product_requests_less_than_the_one_before():
    asked = re.findall(r"requests +(\d+) MB", shown("06-matmul-on-a-roofline", "explained = {"))
    assert [*map(int, asked)] == sorted(map(int, asked), reverse=True)
    assert len(set(asked)) == 4


def test_debugging_shows_an_error_of_each_kind():
    notebook = stored(ROOT / "notebooks" / "11-debugging.ipynb")
    text = "\n".join(map(text_of, code_cells(notebook)))
    for kind in ("LaunchConfig", "ArgumentType", "UndefinedAttribute", "KernelTyping"):
        assert f"{kind}Error: " in text
    for kind in ("KernelIndex", "KernelAssertion"):
        assert re.search(rf"{kind}Error: .*in thread \(\d+, 0, 0\) of block", text)


def test_the_picture_moves():
    notebook = stored(ROOT / "notebooks" / "09-an-equation-that-moves.ipynb")
    outputs = [each for cell in code_cells(notebook) for each in cell.outputs]
    (moving,) = [each for each in outputs if "image/gif" in each.get("data", {})]
    assert moving.metadata["image/gif"] == {"width": 336}


def test_the_image_pipeline_is_as_scipys():
    text = shown("10-image-pipeline", "scipy.ndimage.gaussian_filter(")
    assert float(re.search(r"from SciPy: ([\d.e-]+)", text)[1]) < 1e-2
