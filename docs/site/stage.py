"""Lay out the sources of the site as Sphinx reads them.

The pages lie as they do in the repository, so that the links between them lead to the same places.
A link to a folder is led to the page that speaks of it; a file that a page links to comes along.
The README is the beginning of the front page, and no page of its own.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from docs.site.api import most_used, pages
from docs.site.examples import example_page, gallery_page

__all__ = ["PAGES_OF_FOLDERS", "ROOT", "stage", "staged_pages"]

ROOT = Path(__file__).resolve().parents[2]
_FRONT = Path(__file__).parent / "front-page.txt"
_DEVELOPERS = Path(__file__).parent / "developers.txt"
#: Of the README, what is for those who have a checkout begins here.
_END_OF_FRONT = "## Working on it"
#: The page that a link to a folder, or to the README, means.
PAGES_OF_FOLDERS = {
    "README.md": "index.md",
    "docs/adr": "docs/adr/README.md",
    "benchmarks/results": "benchmarks/results/README.md",
    "examples": "examples/index.md",
    "examples/gallery": "gallery.md",
}
_NOTEBOOKS = """# Notebooks

A course, as it was stored after its last run. [Cards in notebooks](docs/notebooks.md) says what its
values show of themselves.
"""
_LINK = re.compile(r"(\]\()([^)#\s:]+)(#[^)\s]*)?(\))")
_PICTURE = re.compile(r'<img src="([^":]+)"')
#: A program in another language, followed by the same one in kerneldsl's.
_PAIR = re.compile(r"^```(?:py|cuda)\n.*?^```\n\n```python\n.*?^```\n", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"^(`{3,}).*?^\1`*$|`[^`\n]*`", re.DOTALL | re.MULTILINE)


def staged_pages() -> list[Path]:
    """Return the pages of the repository that the site has, relative to its root."""
    named = [Path(name) for name in ("CHANGELOG.md", "CONTRIBUTING.md")]
    found = [*ROOT.glob("docs/*.md"), *ROOT.glob("docs/adr/*.md")]
    found += [*ROOT.glob("notebooks/*.ipynb"), ROOT / "benchmarks" / "results" / "README.md"]
    return [*named, *sorted(path.relative_to(ROOT) for path in found)]


def stage(folder: Path) -> None:
    """Write every source of the site into a folder, which is emptied first.

    Parameters
    ----------
    folder : Path
        What Sphinx is given as its source directory.
    """
    shutil.rmtree(folder, ignore_errors=True)
    for page in staged_pages():
        text = (ROOT / page).read_text(encoding="utf-8")
        if page.suffix == ".ipynb":
            text = _notebook_with_links(text, page, folder)
        else:
            text = _PAIR.sub(r"::::{container} beside\n\g<0>::::\n", text)
            text = _with_links_to_pages(text, page, folder)
        _write(folder / page, text)
    _add_toctree(folder / "docs" / "adr" / "README.md", "[0-9]*")
    _write(folder / "notebooks.md", _NOTEBOOKS)
    _add_toctree(folder / "notebooks.md", "notebooks/*")
    _write(folder / "index.md", _front_page(folder))
    _write(folder / "developers.md", _DEVELOPERS.read_text(encoding="utf-8"))
    _write(folder / "examples" / "index.md", example_page())
    _write(folder / "gallery.md", gallery_page())
    shutil.copytree(ROOT / "docs" / "gallery", folder / "docs" / "gallery")
    _write(folder / "api" / "index.rst", _index_of_reference())
    _write(folder / "api" / "library.rst", _index_of_library())
    for page in pages():
        _write(folder / "api" / f"{page.name}.rst", page.text())


def _front_page(folder: Path) -> str:
    readme, _, _ = (ROOT / "README.md").read_text(encoding="utf-8").partition(_END_OF_FRONT)
    staged = _with_links_to_pages(readme, Path("README.md"), folder)
    return staged + _FRONT.read_text(encoding="utf-8")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _add_toctree(page: Path, pattern: str) -> None:
    lines = ["", "```{toctree}", ":maxdepth: 1", ":glob:", "", pattern, "```", ""]
    page.write_text(page.read_text(encoding="utf-8") + "\n".join(lines), encoding="utf-8")


def _notebook_with_links(text: str, page: Path, folder: Path) -> str:
    """Return a notebook's text with the links of its prose led, as those of a page."""
    notebook = json.loads(text)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            prose = "".join(cell["source"])  # a string, or a list of lines
            cell["source"] = _with_links_to_pages(prose, page, folder)
    return json.dumps(notebook)


def _with_links_to_pages(text: str, page: Path, folder: Path) -> str:
    """Return a page's text, with its links to folders led to pages; copy the files it links to."""
    code = [match.span() for match in _CODE.finditer(text)]

    def led(match: re.Match[str]) -> str:
        if any(begin <= match.start() < end for begin, end in code):
            return match[0]
        target = (ROOT / page.parent / match[2]).resolve()
        if not target.exists() or not target.is_relative_to(ROOT):
            return match[0]  # Sphinx names it
        inside = target.relative_to(ROOT)
        of_folder = PAGES_OF_FOLDERS.get(inside.as_posix())
        if of_folder is not None:
            return f"{match[1]}/{of_folder}{match[3] or ''}{match[4]}"
        if target.is_file() and inside not in _staged():
            _copy(inside, folder)
        return match[0]

    for picture in _PICTURE.findall(text):
        _copy((ROOT / page.parent / picture).resolve().relative_to(ROOT), folder)
    return _LINK.sub(led, text)


def _copy(inside: Path, folder: Path) -> None:
    (folder / inside).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(ROOT / inside, folder / inside)


def _staged() -> set[Path]:
    return set(staged_pages())


def _toctree(names: Iterable[str], caption: str = "") -> str:
    head = [".. toctree::", "   :maxdepth: 1", *([f"   :caption: {caption}"] if caption else [])]
    return "\n".join([*head, "", *(f"   {name}" for name in names), ""])


def _index_of_reference() -> str:
    names = [page.name for page in pages() if not page.name.startswith("stdlib_kernels")]
    packages = [name for name in names if name.startswith(("kerneldsl.", "targets"))]
    kinds = [name for name in names if name not in packages]
    title = "Reference of kerneldsl"
    return "\n".join(
        [
            f"{title}\n{'=' * len(title)}\n",
            "Every public name, from its docstring: ``import kerneldsl as kd``.\n",
            "These are used most:\n",
            most_used(),
            _toctree(kinds, "By subject"),
            _toctree(packages, "Packages"),
        ]
    )


def _index_of_library() -> str:
    names = [page.name for page in pages() if page.name.startswith("stdlib_kernels")]
    title = "Reference of the library"
    return "\n".join(
        [
            f"{title}\n{'=' * len(title)}\n",
            "Every function of ``stdlib_kernels``, by family; :doc:`/docs/library` is the guide.\n",
            _toctree(names),
        ]
    )
