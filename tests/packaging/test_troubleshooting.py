"""The messages, variables and remedies of ``docs/troubleshooting.md`` are those of the code."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import kerneldsl as kd
from kerneldsl.utilities import environment
from targets.cuda.driver.codes import DRIVER_CODES

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "troubleshooting.md"
PACKAGES = ("kerneldsl", "targets", "stdlib_kernels", "kerneldsl_demo")

#: Variables that are read, and that a user of kerneldsl does not set for it: what the terminal, the
#: system or a notebook says of itself.
_NOT_OURS = {"PYTHONPATH": "Python's own"}


@cache
def index() -> ModuleType:
    path = ROOT / "docs" / "message_index.py"
    spec = importlib.util.spec_from_file_location("message_index", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["message_index"] = module  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module


def written_by_hand() -> str:
    return PAGE.read_text(encoding="utf-8")


def test_the_index_is_current() -> None:
    page = index().PAGE.read_text(encoding="utf-8")
    assert page == index().with_index(page), "run: make docs"


def test_the_search_finds_what_is_there() -> None:
    found = index().messages()
    assert len(found) > 200
    by_text = {m.what: m for m in found}
    known = by_text["block_dim «config.block_dim» of «name» needs «threads» threads"]
    assert (known.kind, known.remedy) == ("LaunchConfigError", "Reduce block_dim")
    assert "wait for cuda:«index»" in index().deeds()
    # The front end's own way to raise, and what is looked up where it is assigned.
    assert any(m.kind == "UnsupportedConstructError" and m.remedy for m in found)
    assert "read the driver's version" in index().deeds()


def test_every_message_has_a_section() -> None:
    page = written_by_hand()
    for message in index().messages():
        assert f"\n## {message.section}\n" in page, message.place


def test_every_section_of_the_table_is_in_the_page() -> None:
    page = written_by_hand()
    for kind, section in index().SECTIONS.items():
        assert f"\n## {section}\n" in page, kind


#: Classes whose section in errors.md gives the advice for all their messages.
_ADVICE_OF_CLASS = {
    "AttributeUnavailableError": "if a value may be missing",
    "CacheWarning": "To turn caching off",
    "FallbackWarning": "how to silence",
}
#: Messages without a remedy of their own, and where the advice is instead.
_ADVICE_ELSEWHERE = {
    "ptxas refuses the PTX for «arch»:\n«log.strip»": "the assembler's log is the message",
    "the target «name» cannot be used here: «reason»": "the reason holds it",
}


def test_every_error_says_what_to_do() -> None:
    silent = []
    errors_page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    for message in index().messages():
        if message.has_advice or message.is_relayed:
            continue
        if message.kind in _ADVICE_OF_CLASS or message.what in _ADVICE_ELSEWHERE:
            continue
        silent.append(f"{message.place}: {message.kind}: {message.what}")
    assert silent == []
    for kind, advice in _ADVICE_OF_CLASS.items():
        section = errors_page.split(f"### `{kind}`")[1].split("\n###")[0]
        assert advice in " ".join(section.split())


def test_no_exception_is_kept_for_a_message_that_is_gone() -> None:
    texts = {message.what for message in index().messages()}
    assert set(_ADVICE_ELSEWHERE) <= texts


def _pattern(template: str) -> re.Pattern[str]:
    parts = re.split(r"«[^»]*»", " ".join(template.split()))
    return re.compile(".*?".join(re.escape(part) for part in parts) + r"($|[.:]|…)")


QUOTES = re.findall(r"```text\n(.*?)```", written_by_hand(), re.DOTALL)


@pytest.mark.parametrize("quote", QUOTES, ids=lambda q: q[:40])
def test_a_quoted_message_is_one_of_the_code(quote: str) -> None:
    text = " ".join(quote.split())
    templates = [m.what for m in index().messages() if not m.is_relayed]
    templates += [f"Could not {deed}" for deed in index().deeds()]
    fitting = [t for t in templates if _pattern(t).match(text) and re.search(r"\w", t[:3])]
    fitting += [t for t in templates if t.startswith("«") and _pattern(t).match(text)]
    assert fitting, text
    for code in re.findall(r"CUDA_ERROR_[A-Z_]+ \(\d+\)", text):
        name, number = code.split(" (")
        assert DRIVER_CODES[int(number.rstrip(")"))].name == name


def test_quotes_are_found() -> None:
    assert len(QUOTES) > 12


def test_codes_that_the_page_names_are_the_drivers() -> None:
    for name, number in re.findall(r"`(CUDA_ERROR_\w+)` \((\d+)\)", written_by_hand()):
        assert DRIVER_CODES[int(number)].name == name
    known = {code.name for code in DRIVER_CODES.values()}
    for name in re.findall(r"`(CUDA_ERROR_[A-Z_]+)`", written_by_hand()):
        assert name in known


def variables_in_the_page() -> set[str]:
    table = written_by_hand().split("\n## Environment variables\n")[1].split("\n## ")[0]
    first = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    return {name for cell in first for name in re.findall(r"`(\w+)`", cell)}


def variables_in_the_code() -> dict[str, str]:
    """Names in capitals that are looked up in the environment, with the place."""
    found = {}
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            tree = ast.parse(file.read_text(encoding="utf-8"))
            for node in ast.walk(tree):
                for key in _keys(node):
                    if isinstance(key, ast.Constant) and isinstance(key.value, str):
                        found[key.value] = f"{file.relative_to(ROOT)}:{node.lineno}"
    return {name: place for name, place in found.items() if re.fullmatch(r"[A-Z][A-Z0-9_]+", name)}


def _is_environ(node: ast.AST) -> bool:
    match node:
        case ast.Name(id="environ") | ast.Attribute(attr="environ"):
            return True
    return False


def _keys(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.Call(func=ast.Attribute(value=holder, attr="get" | "pop"), args=[key, *_]):
            return [key] if _is_environ(holder) else []
        case ast.Call(func=ast.Attribute(attr="getenv"), args=[key, *_]):
            return [key]
        case ast.Subscript(value=holder, slice=key):
            return [key] if _is_environ(holder) else []
        case ast.Compare(left=key, comparators=[holder]):
            return [key] if _is_environ(holder) else []
        case _:
            return []


def test_every_variable_that_is_read_is_in_the_table() -> None:
    page = variables_in_the_page()
    unknown = {
        name: place
        for name, place in variables_in_the_code().items()
        if name not in page and name not in _NOT_OURS
    }
    assert unknown == {}


def test_the_variables_of_kerneldsl_are_the_same_everywhere() -> None:
    page = {name for name in variables_in_the_page() if name.startswith("KERNELDSL_")}
    assert page == set(environment.VARIABLES)
    mentioned = {
        name
        for package in PACKAGES
        for file in (ROOT / package).rglob("*.py")
        for name in re.findall(r"\bKERNELDSL_[A-Z_]+\b", file.read_text(encoding="utf-8"))
    }
    assert mentioned <= page


def test_what_the_page_calls_is_there() -> None:
    text = written_by_hand()
    for name in set(re.findall(r"`kd\.(\w+)", text)):
        assert hasattr(kd, name), name
    for code in DRIVER_CODES.values():
        for path in re.findall(r"\bkd\.(\w+(?:\.\w+)?)", code.remedy):
            value = kd
            for part in path.split("."):
                value = getattr(value, part)
