"""Every notebook runs from top to bottom, and is stored without outputs."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
TIMEOUT_S = 300

nbformat = pytest.importorskip("nbformat", reason="the notebook extra is not installed")
nbclient = pytest.importorskip("nbclient", reason="the notebook extra is not installed")
pytest.importorskip("ipykernel", reason="the notebook extra is not installed")


@pytest.fixture
def this_python(tmp_path, monkeypatch):
    """Make "python3" mean the interpreter of the tests, with the checkout on its path."""
    import json

    spec = tmp_path / "kernels" / "python3"
    spec.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (spec / "kernel.json").write_text(
        json.dumps({"argv": argv, "display_name": "Python 3", "language": "python"})
    )
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    path = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{path}" if path else str(ROOT))


def run(path: Path) -> Any:
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=TIMEOUT_S, kernel_name="python3", resources={"metadata": {"path": ROOT}}
    )
    return client.execute()


def output_of(notebook: Any, source: str) -> str:
    """Text that the cell with this source in it printed or showed."""
    (cell,) = [c for c in notebook.cells if c.cell_type == "code" and source in c.source]
    texts = [o.get("text") or o.get("data", {}).get("text/plain", "") for o in cell.outputs]
    return "".join(texts)


def test_each_notebook_is_executed_below():
    assert [path.stem for path in NOTEBOOKS] == [
        "01-first-kernel",
        "02-from-threads-to-tiles",
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_is_stored_without_outputs(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code
    assert all(cell.execution_count is None and not cell.outputs for cell in code)


def test_first_kernel(this_python):
    notebook = run(ROOT / "notebooks" / "01-first-kernel.ipynb")
    ptx = output_of(notebook, "axpy.ptx(")
    assert ".target sm_90" in ptx
    assert ".visible .entry axpy" in ptx
    source = output_of(notebook, "reverse_blocks.cpu_source(")
    assert source.count("for ") >= 2
    assert "a launch on" in output_of(notebook, ".time(")
    refusal = output_of(notebook, "half_a_barrier[1, 128]")
    assert "first_half" in refusal
    assert "kd.syncthreads()" in refusal
    assert "'out'" in output_of(notebook, "[0.0] * out.size")


def test_from_threads_to_tiles(this_python):
    notebook = run(ROOT / "notebooks" / "02-from-threads-to-tiles.ipynb")
    for kernel in ("by_threads", "by_groups", "by_tiles"):
        assert output_of(notebook, f"{kernel}[len(x)") == "as NumPy's\n"
    ptx = output_of(notebook, "by_tiles.ptx(")
    assert "ld.global.v4.b32" in ptx
    assert "st.global.v4.b32" in ptx
