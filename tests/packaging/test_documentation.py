"""What the documentation promises is there."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import logging
import re
import subprocess
import tomllib
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl import errors
from tests.support.extent import full_beyond
from tests.support.pages import Block, blocks_of, prints

ROOT = Path(__file__).parents[2]
PAGES = [
    *ROOT.glob("*.md"),
    *(p for p in (ROOT / "docs").rglob("*.md")),
]


def make_targets() -> set[str]:
    text = (ROOT / "Makefile").read_text()
    return set(re.findall(r"^([a-z-]+):", text, re.MULTILINE))


def test_every_make_command_in_a_page_exists():
    named = {}
    for page in PAGES:
        text = page.read_text()
        commands = re.findall(r"`make ([a-z][a-z-]*)", text) + re.findall(
            r"^\$ make ([a-z-]+)", text, re.M
        )
        named.update(dict.fromkeys(commands, page.name))
    assert {"demo", "check"} <= set(named)
    unknown = {name: page for name, page in named.items() if name not in make_targets()}
    assert not unknown


def test_make_alone_lists_every_target():
    listed = subprocess.run(
        ["make", "--no-print-directory"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    for target in make_targets():
        assert f"make {target} " in listed


def test_every_extra_for_users_is_on_the_page_of_installation():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    page = (ROOT / "docs" / "getting-started.md").read_text()
    of_developers = {"all", "dev", "docs", "interop", "lab", "test"}
    of_profiles = {"cupti"}  # profiling.md
    for name in {*extras["optional-dependencies"]} - of_developers - of_profiles:
        assert re.search(rf"`{name}`|\[(\w+,)*{name}(,\w+)*\]", page), name


def test_every_error_is_in_its_page():
    page = (ROOT / "docs" / "errors.md").read_text()
    for name in errors.__all__:
        kind = getattr(errors, name)
        if isinstance(kind, type) and issubclass(kind, (BaseException, Warning)):
            assert re.search(rf"^###? `{name}`", page, re.MULTILINE), name


def test_the_page_names_no_error_that_is_gone():
    page = (ROOT / "docs" / "errors.md").read_text()
    for name in re.findall(r"^###? `(\w+)`", page, re.MULTILINE):
        assert name in kd.__all__


@pytest.mark.parametrize(
    ("script", "maker", "page"),
    [
        ("generate", "with_attributes", "docs/devices.md"),
        ("generate", "with_libdevice", "docs/libdevice.md"),
        ("generate", "with_numba", "docs/coming-from-numba-cuda.md"),
        ("generate", "with_table", "docs/language.md"),
        ("performance_table", "with_summary", "README.md"),
        ("performance_table", "with_performance", "docs/how-fast.md"),
        ("performance_table", "with_provenance", "benchmarks/results/README.md"),
        ("accuracy_table", "with_accuracy", "docs/cpu-math.md"),
    ],
)
def test_generated_tables_are_current(script, maker, page):
    spec = importlib.util.spec_from_file_location(script, ROOT / "docs" / f"{script}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = (ROOT / page).read_text(encoding="utf-8")
    assert text == getattr(module, maker)(text), "run: make docs"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", prose):
        if not target.startswith(("http://", "https://")):
            assert (page.parent / target).exists(), target


#: Pages whose programs are to fail: they show defects of Numba and Python.
NOT_RUN = {"docs/upstream.md"}
#: Pages that a quick run leaves out, since they compile much.
LONG = {"docs/array-api.md", "docs/language.md"}
#: Pages that ``test_distribution.py`` follows with what is installed.
FOLLOWED = {"README.md", "docs/getting-started.md"}
#: Packages of extras that a page's blocks use, beside those of its text.
NEEDED = {
    "docs/explain.md": ("sympy",),
    "docs/expressions.md": ("sympy",),
    "docs/notebooks.md": ("sympy", "matplotlib"),
    "docs/planning.md": ("sympy",),
}
#: What runs before a page's blocks.
PREPARED = {
    "docs/notebooks.md": "import matplotlib\nmatplotlib.use('agg')",
}


#: Pages whose programs print what stands behind them.
SHOWN = {
    "README.md",
    "docs/coming-from-numba-cuda.md",
    "docs/explain.md",
    "docs/getting-started.md",
    "docs/why-kerneldsl.md",
}

RUN = [str(page.relative_to(ROOT)) for page in PAGES if blocks_of(page)]
RUN = sorted({*RUN} - NOT_RUN)
QUICK = sorted({*RUN} - LONG - FOLLOWED)


@pytest.mark.parametrize("name", full_beyond(RUN, QUICK))
def test_python_in_a_page_runs(name, tmp_path, monkeypatch, request):
    for package in NEEDED.get(name, ()):
        pytest.importorskip(package, reason="an extra is not installed")
    # Blocks of a page follow each other, as a reader would type them; each lies in a file, where
    # the source of its kernels is found.
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KERNELDSL_CACHE_DIR", str(tmp_path / "cache"))
    log = logging.getLogger("kerneldsl")
    request.addfinalizer(partial(log.setLevel, log.level))  # which a page may set
    namespace: dict[str, object] = {"__name__": "page"}
    blocks = [Block(PREPARED.get(name, ""), None), *blocks_of(ROOT / name)]
    with kd.use("cpu"), warnings.catch_warnings():
        warnings.simplefilter("error")
        for number, block in enumerate(blocks):
            file = tmp_path / f"block{number}.py"
            file.write_text(block.code)
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile(block.code, str(file), "exec"), namespace)
            if name in SHOWN and block.printed is not None:
                assert prints(block.printed, output.getvalue()), output.getvalue()


def test_every_shown_page_shows_something():
    for name in SHOWN:
        assert any(block.printed for block in blocks_of(ROOT / name)), name


@pytest.mark.parametrize(
    ("shown", "printed", "expected"),
    [
        ("[1. 3.]\n", "[1. 3.]\n", True),
        ("34 GB/s on cpu (AMD EPYC)\n", "7 GB/s on cpu (another)\n", True),
        ("a …\nb\n", "a long\nlist\nb\n", True),
        ("[1. 3.]\n", "[1. 4.]\n", False),
        ("[1. 3.]\n", "", False),
    ],
)
def test_what_a_page_shows_is_compared(shown, printed, expected):
    assert prints(shown, printed) is expected


def test_the_readme_is_short_enough_to_be_read():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 130


def test_figures_of_the_readme_are_those_of_its_table():
    text = (ROOT / "README.md").read_text()
    begin, table, _ = re.split(r"<!-- (?:figures: generated.*|end of figures) -->", text)
    figures = set(re.findall(r"\d\.\d\d×", begin))
    assert figures
    assert figures <= set(re.findall(r"\d\.\d\d×", table))


def test_the_picture_of_the_readme_is_what_its_kernel_draws(tmp_path):
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    program = blocks_of(ROOT / "README.md")[0].code
    file = tmp_path / "julia.py"
    file.write_text(program)
    namespace: dict[str, object] = {"__name__": "page"}
    with kd.use("cpu"):
        exec(compile(program, str(file), "exec"), namespace)
    with image.open(ROOT / "docs" / "pictures" / "julia.webp") as stored:
        # Another compiler may contract products otherwise, which shows at the edges.
        same = np.asarray(stored.convert("RGB")) == namespace["image"]
    assert same.all(axis=2).mean() > 0.98


@pytest.mark.parametrize("page", ["architecture", "cpu-target", "launches", "releases"])
def test_files_that_a_page_names_are_there(page):
    text = (ROOT / "docs" / f"{page}.md").read_text()
    named = set(re.findall(r"`((?:\w+/)*\w+\.py|(?:\w+/)+)`", text))
    named |= set(re.findall(r"`((?:tests|targets|kerneldsl)/[\w/]+)`", text))
    assert len(named) > 15
    folders = [ROOT, ROOT / "kerneldsl", ROOT / "targets" / "cpu"]
    folders += [ROOT / p for p in ("kerneldsl/ir", "kerneldsl/launch/native", "targets/cuda")]
    folders += [ROOT / "tests/unit/launch/native", ROOT / "kerneldsl" / "frontend"]
    folders += [
        ROOT / "targets/cpu" / p for p in ("codegen", "regions", "regions/lanes", "runtime")
    ]
    missing = [name for name in named if not any((folder / name).exists() for folder in folders)]
    assert not missing


def test_the_table_of_packages_has_the_order_of_the_layers():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = next(
        each for each in contracts["contracts"] if each.get("containers") == ["kerneldsl"]
    )
    page = (ROOT / "docs" / "architecture.md").read_text()
    rows = re.findall(r"^\| (`[^|]+) \|", page[page.index("| package |") :], re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`(\w+)/?`", row)]
    assert [name for name in named if name in layers["layers"]] == [
        name for name in layers["layers"] if not name.startswith("_")
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_paths_of_sources_in_a_page_are_there(page):
    named = re.findall(
        r"`((?:kerneldsl|stdlib_kernels|targets)/[\w/]+(?:\.py)?)`", page.read_text()
    )
    assert not [name for name in named if not (ROOT / name).exists()]
