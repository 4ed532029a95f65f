"""Every code that the installed bindings know has an entry, and becomes an error of its class."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kerneldsl import errors
from kerneldsl.contract.error_history import CATEGORIES, error_log
from targets.cuda.driver.codes import DRIVER_CODES, DriverCode, category_of_name, find_code
from targets.cuda.driver.errors import compose_error, describe_foreign, driver_error, remedy_for
from tests.support.driver_bindings import FakeBindings, Status

_ALL = [pytest.param(c, id=c.name) for c in DRIVER_CODES.values()]


def _members() -> list[Any]:
    pytest.importorskip("cuda.bindings", reason="cuda.bindings is not installed")
    from cuda.bindings import driver as bindings

    members = [m for m in bindings.CUresult if int(m)]
    assert members
    return members


def test_every_code_of_the_bindings_has_an_entry() -> None:
    # Aliases apart, the names are the vendor's.
    found = {
        int(m): DRIVER_CODES[int(m)].name if int(m) in DRIVER_CODES else None for m in _members()
    }
    assert found == {int(m): m.name for m in _members()}


def test_codes_that_end_the_process_are_fatal() -> None:
    members = _members()
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
    members = _members()
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
    assert isinstance(error, errors.OutOfMemoryError) == (code.name == "CUDA_ERROR_OUT_OF_MEMORY")
    text = str(error)
    assert text.startswith("Could not wait for cuda:0. ")
    assert code.name in text
    assert code.remedy.split(".")[0] in text


def test_every_category_has_a_class_of_its_own() -> None:
    codes = [*DRIVER_CODES.values(), find_code(4711, "CUDA_ERROR_LTO_COMPILATION")]
    kinds = {type(compose_error(code, "do it")) for code in codes}
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
