"""Pages of the examples, made from the programs themselves."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from textwrap import indent

__all__ = ["Family", "example_page", "families", "gallery_page", "gallery_programs"]

_FAMILIES = Path(__file__).parent / "families"
_EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
#: Of the gallery: what the programs share, and what runs them all.
_HELPERS = {"draw", "picture"}


@dataclass(frozen=True)
class Family:
    """The example at the beginning of a page of the reference."""

    file: Path
    about: str
    code: str
    printed: str

    def text(self) -> str:
        """Return it as reStructuredText."""
        spaced = self.code.replace("\n\n\n", "\n\n")
        code, printed = (indent(part, "   ") for part in (spaced, self.printed))
        return (
            f"{self.about}\n\n.. code-block:: python\n\n{code}\n\n"
            f".. code-block:: none\n\n{printed}\n\n"
        )


@cache
def families() -> dict[str, Family]:
    """Return the examples of families by the names of their pages."""
    found = {}
    for file in sorted(_FAMILIES.glob("[a-z]*.py")):
        source = file.read_text(encoding="utf-8")
        about, code = _split(source)
        program, _, printed = code.partition("\n#:")
        lines = [line.removeprefix("#:").removeprefix(" ") for line in f"#:{printed}".splitlines()]
        found[file.stem.replace("_", "-")] = Family(file, about, program.strip(), "\n".join(lines))
    return found


def _split(source: str) -> tuple[str, str]:
    """Return a program's docstring, and what follows it."""
    tree = ast.parse(source)
    end = tree.body[0].end_lineno
    return ast.get_docstring(tree) or "", "\n".join(source.splitlines()[end:])


def example_page() -> str:
    """Return the page of the examples, as Markdown: each with the beginning of its docstring."""
    parts = ["# Examples", "Each is a program that runs by itself and checks its own result.", ""]
    for file in sorted(_EXAMPLES.glob("*.py")):
        source = file.read_text(encoding="utf-8")
        about = (ast.get_docstring(ast.parse(source)) or "").partition("\n\nRun it")[0]
        parts += [f"## {file.stem}", about, f"```python\n{source.rstrip()}\n```", ""]
    return "\n\n".join(parts)


def gallery_programs() -> list[Path]:
    """Return the programs that draw the gallery's pictures."""
    programs = sorted((_EXAMPLES / "gallery").glob("*.py"))
    return [program for program in programs if program.stem not in _HELPERS]


def gallery_page() -> str:
    """Return the page of the gallery, as Markdown: pictures, and below each what draws it."""
    programs = gallery_programs()
    thumbnails = "\n\n".join(
        f"[![{program.stem}](docs/gallery/{program.stem}.webp)](#{_anchor(program)})"
        for program in programs
    )
    head = (
        "# Gallery\n\nEach picture is drawn by the kernels below it, here on a CPU; "
        "`make gallery` draws them all anew.\n"
    )
    sections = [_section(program) for program in programs]
    return "\n".join([head, f":::{{container}} pictures\n{thumbnails}\n:::\n", *sections])


def _anchor(program: Path) -> str:
    return program.stem.replace("_", "-")


def _section(program: Path) -> str:
    source = program.read_text(encoding="utf-8")
    tree = ast.parse(source)
    title, _, about = (ast.get_docstring(tree) or "").split("\n")[0].partition(": ")
    lines = source.splitlines()
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    code = "\n\n\n".join(
        "\n".join(lines[node.decorator_list[0].lineno - 1 : node.end_lineno])
        for node in functions
        if node.decorator_list
    )
    drawing = next(node for node in functions if node.name == "draw")
    launches = "\n".join(lines[drawing.lineno - 1 : drawing.end_lineno])
    return "\n".join(
        [
            f"({_anchor(program)})=",
            f"## {title}\n",
            f"{about[:1].upper()}{about[1:]}\n",
            f"```{{image}} docs/gallery/{program.stem}.webp\n:class: picture\n:alt: {title}\n```\n",
            f"```python\n{code}\n```\n",
            f"How it is launched, in `examples/gallery/{program.name}`:\n",
            f"```python\n{launches}\n```\n",
        ]
    )
