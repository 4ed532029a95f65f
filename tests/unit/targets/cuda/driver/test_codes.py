"""Every code that the installed bindings know has an entry, and becomes an error of its class."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from typing import Any

import pytest

from kerneldsl import errors
from kerneldsl.contract.error_history import CATEGORIES, error_log
from targets.cuda.driver.codes import (
    DRIVER_CODES,
    LIBRARIES,
    NVJITLINK_CODES,
    NVRTC_CODES,
    RUNTIME_CODES,
    DriverCode,
    category_of_name,
    find_code,
)
from targets.cuda.driver.errors import (
    compose_error,
    describe_foreign,
    driver_error,
    library_error,
    remedy_for,
)
from tests.support.driver_bindings import FakeBindings, Status

#: Module of the bindings, its enumeration, our table, what our names have before theirs.
_ENUMERATIONS = [
    ("driver", "CUresult", DRIVER_CODES, ""),
    ("runtime", "cudaError_t", RUNTIME_CODES, ""),
    ("nvrtc", "nvrtcResult", NVRTC_CODES, ""),
    ("nvjitlink", "Result", NVJITLINK_CODES, "NVJITLINK_"),
]
_TABLES = {module: table for module, _, table, _ in _ENUMERATIONS}
_ALL = [pytest.param(c, id=c.name) for table in _TABLES.values() for c in table.values()]


def _members(module: str, enumeration: str) -> list[Any]:
    bindings = pytest.importorskip(
        f"cuda.bindings.{module}", reason="cuda.bindings is not installed"
    )
    members = [m for m in getattr(bindings, enumeration) if int(m)]
    assert members
    return members


@pytest.mark.parametrize(
    ("module", "enumeration", "table", "prefix"), _ENUMERATIONS, ids=[e[0] for e in _ENUMERATIONS]
)
def test_every_code_of_the_bindings_has_an_entry(
    module: str, enumeration: str, table: Mapping[int, DriverCode], prefix: str
) -> None:
    members = _members(module, enumeration)
    # Aliases and the two spellings of the runtime's names apart, the names are the vendor's.
    found = {int(m): table[int(m)].name if int(m) in table else None for m in members}
    assert found == {int(m): prefix + m.name for m in members}


def test_codes_that_end_the_process_are_fatal() -> None:
    members = _members("driver", "CUresult")
    said = {
        m.name
        for m in members
        if re.search(
            r"process must be terminated|context cannot be used",
            " ".join((m.__doc__ or "").split()),
        )
    }
    if not said:
        pytest.skip("these bindings carry no documentation of the codes")
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in said
    assert said <= {code.name for code in DRIVER_CODES.values() if code.is_fatal}


def test_what_the_vendor_says_of_the_process_is_said_of_the_process() -> None:
    members = _members("driver", "CUresult")
    texts = {int(m): " ".join((m.__doc__ or "").split()) for m in members}
    said = {code for code, text in texts.items() if "process must be terminated" in text}
    if not said:
        pytest.skip("these bindings carry no documentation of the codes")
    ours = {code for code, entry in DRIVER_CODES.items() if entry.loses_process}
    ending = 4  # the driver shuts down, with all devices
    assertion = 710  # of which the text speaks otherwise, and H200s do not
    assert said | {ending, assertion} == ours & texts.keys()
    assert all(DRIVER_CODES[code].is_fatal for code in ours)
    for code in ours - {ending}:
        assert "every CUDA device is lost" in DRIVER_CODES[code].remedy


@pytest.mark.parametrize("code", _ALL)
def test_an_entry_is_complete(code: DriverCode) -> None:
    assert code.category in CATEGORIES
    assert len(code.remedy) > 10
    assert not code.remedy.endswith(".")  # the message adds it
    assert code.code > 0


@pytest.mark.parametrize("code", _ALL)
def test_an_error_is_of_the_class_of_its_category(code: DriverCode) -> None:
    error = compose_error(code, "wait for cuda:0", device="cuda:0")
    assert type(error).category == error.category == code.category
    assert (error.code, error.name, error.is_fatal) == (code.code, code.name, code.is_fatal)
    assert isinstance(error, errors.OutOfMemoryError) == (
        code.name in ("CUDA_ERROR_OUT_OF_MEMORY", "cudaErrorMemoryAllocation")
    )
    text = str(error)
    assert text.startswith("Could not wait for cuda:0. ")
    assert code.name in text
    assert code.remedy.split(".")[0] in text


def test_every_category_has_a_class_of_its_own() -> None:
    kinds = {compose_error(code.values[0], "do it").__class__ for code in _ALL}
    assert {kind.category for kind in kinds} == set(CATEGORIES)


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("CUDA_ERROR_POOL_EXHAUSTED", "memory"),
        ("CUDA_ERROR_GRAPH_TOO_LARGE", "stream"),
        ("CUDA_ERROR_WARP_ILLEGAL_INSTRUCTION", "launch"),
        ("CUDA_ERROR_DRIVER_TOO_NEW", "initialization"),
        ("CUDA_ERROR_UNSUPPORTED_PTX_FEATURE", "kernel"),
        ("CUDA_ERROR_LTO_COMPILATION", "compile"),
        ("CUDA_ERROR_DEVICE_ASLEEP", "device"),
        ("cudaErrorStreamGone", "stream"),
        ("CUDA_ERROR_FULL_MOON", "system"),
    ],
)
def test_a_code_newer_than_the_table_is_read_by_its_name(name: str, category: str) -> None:
    code = find_code(4711, name)
    assert (code.category, code.name, code.is_fatal) == (category, name, False)
    assert category_of_name(name) == category
    error = compose_error(code, "wait for cuda:0")
    assert error.category == category
    assert "update kerneldsl" in str(error)


def test_a_new_code_is_fatal_where_the_vendor_says_so() -> None:
    text = "To continue using CUDA, the process must be terminated and relaunched."
    found = find_code(4711, "CUDA_ERROR_NEW", text)
    assert (found.is_fatal, found.loses_process) == (True, True)
    text = "The context cannot be used anymore, and must be destroyed."
    found = find_code(4711, "CUDA_ERROR_NEW", text)
    assert (found.is_fatal, found.loses_process) == (True, False)
    assert not find_code(4711, "CUDA_ERROR_NEW", "Try again.").is_fatal


def test_the_driver_is_quoted() -> None:
    error = driver_error(FakeBindings(), Status(2), "allocate 64 bytes on cuda:1")
    assert isinstance(error, errors.OutOfMemoryError)
    assert isinstance(error, MemoryError)
    assert "answered CUDA_ERROR_OUT_OF_MEMORY (2): as the driver says it" in str(error)
    assert error.doing == "allocate 64 bytes on cuda:1"


def test_a_number_without_a_name_is_still_an_error() -> None:
    error = driver_error(FakeBindings(), 4711, "wait for cuda:0")
    assert (error.code, error.category) == (4711, "system")
    assert "4711" in str(error)


def test_given_fields_take_the_place_of_the_usual_ones() -> None:
    error = driver_error(
        FakeBindings(), Status(2), "do it", remedy="Buy memory", limit="There is none"
    )
    assert str(error) == "Could not do it. There is none. Buy memory."


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_library_is_named(library: str) -> None:
    who, table, _ = LIBRARIES[library]
    code = next(iter(table.values()))
    error = library_error(library, code.code, "compile it", chain=("line 7: no",))
    assert f"{who} answered {code.name}" in str(error)
    assert str(error).endswith("line 7: no")


def test_an_unknown_code_of_a_compiler_is_the_compilers() -> None:
    assert library_error("nvrtc", 4711, "compile it").category == "compile"
    assert library_error("nvjitlink", 4711, "link it").category == "compile"
    assert library_error("runtime", 4711, "do it").category == "system"


@pytest.mark.parametrize(
    ("text", "name", "category"),
    [
        ("CUDA_ERROR_ILLEGAL_ADDRESS: while executing", "CUDA_ERROR_ILLEGAL_ADDRESS", "launch"),
        ("cudaErrorInsufficientDriver: old", "cudaErrorInsufficientDriver", "initialization"),
        ("NVRTC_ERROR_COMPILATION: no", "NVRTC_ERROR_COMPILATION", "compile"),
        ("CUDA_ERROR_STREAM_MELTED: hot", "CUDA_ERROR_STREAM_MELTED", "stream"),
        ("nothing known", "RuntimeError", "system"),
    ],
)
def test_what_cuda_core_raised_is_read_by_the_name_in_it(
    text: str, name: str, category: str
) -> None:
    code, said = describe_foreign(RuntimeError(text))
    error = compose_error(code, "record an event", text=said)
    assert (error.name, error.category) == (name, category)
    assert text.split(":", maxsplit=1)[0] in str(error)


def test_every_error_is_written_down() -> None:
    before = len(error_log.entries()), error_log.counts()["stream"]
    error = compose_error(DRIVER_CODES[400], "use a stream", device="cuda:3")
    newest = error_log.entries()[-1]
    assert (newest.message, newest.device, newest.name) == (str(error), "cuda:3", error.name)
    assert error_log.counts()["stream"] == before[1] + 1


def test_a_remedy_is_found_by_name() -> None:
    assert "debug=True" in (remedy_for("CUDA_ERROR_ILLEGAL_ADDRESS") or "")
    assert remedy_for("CUDA_ERROR_FULL_MOON") is None


def test_modules_that_are_asked_for_can_be_had() -> None:
    # Else the enumerations above are skipped everywhere and hold nothing.
    for module, *_ in _ENUMERATIONS:
        try:
            importlib.import_module("cuda.bindings")
        except ImportError:
            pytest.skip("cuda.bindings is not installed")
        importlib.import_module(f"cuda.bindings.{module}")
