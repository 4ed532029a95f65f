"""Execute a notebook from top to bottom, and reduce it to what is stored of it.

What is stored is the same wherever it is made: no times, no versions of the interpreter, no paths of
a machine. Cells whose outputs depend on the machine have the tag ``varies``.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

__all__ = ["NOTEBOOKS", "PICTURES", "ROOT", "VARIES", "WIDGET", "answers_of", "execute", "stored_form"]

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
#: MIME types of pictures.
PICTURES = ("image/png", "image/gif")
#: Tag of cells whose outputs are not the same everywhere: times, what the machine is.
VARIES = "varies"
TIMEOUT_S = 300
#: MIME type of a widget, whose state is in the kernel that made it: a stored one could not be
#: shown. Beside it stands what pages without a kernel show.
WIDGET = "application/vnd.jupyter.widget-view+json"
#: What a notebook's metadata has; front ends write much more.
_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
#: The file that a cell is compiled as, which is another one in each process; debug information has
#: its folder and its name apart.
_CELL_FILE = re.compile(
    r'(?:[^\s"\'<>()&;]*/)?ipykernel_\d+(?:/\d+\.py)?|<ipython-input-[^>]+>|\b\d{8,10}\.py\b'
)


def execute(path: Path, target: str = "cpu", *, answers: bool = False) -> Any:
    """Return a notebook with the outputs of a run in a process of its own.

    Parameters
    ----------
    path : Path
        The notebook.
    target : str
        Where its kernels run.
    answers : bool
        Whether the programs among the answers to its exercises are run, too, after all cells.
    """
    import nbclient
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    count = len(notebook.cells)
    if answers:
        notebook.cells += map(nbformat.v4.new_code_cell, answers_of(notebook))
    with tempfile.TemporaryDirectory() as folder, _this_python(Path(folder), target):
        client = nbclient.NotebookClient(
            notebook,
            timeout=TIMEOUT_S,
            kernel_name="python3",
            record_timing=False,
            coalesce_streams=True,
            resources={"metadata": {"path": folder}},
        )
        client.execute()
    del notebook.cells[count:]
    return notebook


def answers_of(notebook: Any) -> list[str]:
    """Return the programs in a notebook's prose."""
    prose = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    return re.findall(r"^```python\n(.*?)^```", "\n".join(prose), re.DOTALL | re.MULTILINE)


@contextlib.contextmanager
def _this_python(folder: Path, target: str) -> Iterator[None]:
    """Make "python3" mean this interpreter, with the checkout on its path and an empty cache."""
    spec = folder / "kernels" / "python3"
    spec.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (spec / "kernel.json").write_text(
        json.dumps({"argv": argv, "display_name": "Python 3", "language": "python"})
    )
    before = os.environ.get("PYTHONPATH")
    changed = {
        "JUPYTER_PATH": str(folder),
        "IPYTHONDIR": str(folder / "ipython"),
        "PYTHONPATH": f"{ROOT}{os.pathsep}{before}" if before else str(ROOT),
        "KERNELDSL_CACHE_DIR": str(folder / "cache"),
        "KERNELDSL_TARGET": target,
        "COLUMNS": "100",
    }
    with mock.patch.dict(os.environ, changed):
        yield


def stored_form(notebook: Any) -> Any:
    """Return a notebook that was executed as it is stored: the input is changed."""
    notebook.metadata.clear()
    notebook.metadata.update(_METADATA)
    number = 0
    for at, cell in enumerate(notebook.cells):
        cell.id = f"cell-{at:02}"
        for key in set(cell.metadata) - {"tags", "jupyter"}:
            del cell.metadata[key]
        if cell.cell_type != "code":
            continue
        number += 1
        cell.execution_count = number
        cell.outputs = [
            _stored_output(output, number) for output in cell.outputs if not _is_empty(output)
        ]
    return notebook


def _is_empty(output: Any) -> bool:
    """Return whether nothing is left of an output, as of the progress of a compilation."""
    return output.output_type == "display_data" and not any(output.data.values())


def _stored_output(output: Any, number: int) -> Any:
    if output.output_type == "stream":
        output.text = _without_places(output.text)
        return output
    if output.output_type == "execute_result":
        output.execution_count = number
    output.data.pop(WIDGET, None)
    # How large a picture is shown stands in the metadata of its output.
    for kind in set(output.metadata) - {*PICTURES}:
        del output.metadata[kind]
    for kind, value in output.data.items():
        if isinstance(value, str) and kind not in PICTURES:
            output.data[kind] = _without_places(value)
    return output


def _without_places(text: str) -> str:
    """Return a text in which a cell has no file name of its own."""
    return _CELL_FILE.sub("cell", text)
