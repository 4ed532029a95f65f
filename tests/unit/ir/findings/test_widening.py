"""Which stores to float32 arrays are told of, and what is said of them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.analysis.work import KernelWork
from kerneldsl.contract.findings import finding_text, from_numbers
from kerneldsl.frontend.normalize import make_unit
from kerneldsl.language.signatures import parse_signature
from kerneldsl.placement.registry import get_target
from tests.support.source import exec_source

_TEXT = re.compile(r"(.*) is float32 and is computed in float64 \(line \d+\), because (.*?)\. .*")


def causes(function: Callable[..., Any], signature: str) -> list[str]:
    unit = make_unit(function)
    work = get_target("null").compiler.work(unit, parse_signature(signature), None)
    assert work is not None
    stored = KernelWork.from_json(json.loads(json.dumps(work.to_json()))).wide_stores
    texts = [finding_text(each) for each in from_numbers(stored, unit)]
    found = [_TEXT.fullmatch(each) for each in texts]
    return [f"{each[1]}: {each[2]}" for each in found if each is not None]


def test_what_a_variable_held_before_is_no_cause() -> None:
    def kernel(x, out):
        v = 2.0
        v = x[0]
        out[0] = v

    assert causes(kernel, "f4[::1], f4[::1]") == []


def test_a_power_of_a_negative_integer_stays_float32() -> None:
    def kernel(x, out):
        out[0] = x[0] ** -2

    assert causes(kernel, "f4[::1], f4[::1]") == []


def test_small_integers_that_float32_holds() -> None:
    """Numba converts uint16 to float64, and the others to float32."""

    def kernel(n, x, out):
        out[0] = n * x[0]

    for narrow in ("bool", "int8", "int16", "uint8"):
        assert causes(kernel, f"{narrow}, f4[::1], f4[::1]") == [], narrow
    (cause,) = causes(kernel, "uint16, f4[::1], f4[::1]")
    assert cause == "out[0]: n is uint16, and with float32 that gives float64"


def test_unsigned_integers_give_no_float() -> None:
    def kernel(n, out):
        out[0] = (n | 7) & 119
        out[1] = np.float32(1) * np.float32(math.floor(np.float64(n)))

    assert causes(kernel, "uint64, f4[::1]") == []


def test_a_part_of_a_tuple_and_an_element() -> None:
    def kernel(x, pair, out):
        a, b = 1.5, x[0]
        out[0] = a * b
        out[1] = pair[1]
        out[2] = x[1]

    assert causes(kernel, "f8[::1], (f4, f8), f4[::1]") == [
        "out[0]: the literal 1.5 is float64",
        "out[0]: x[0] is an element of a float64 array",
        "out[1]: pair[1] is float64",
        "out[2]: x[1] is an element of a float64 array",
    ]


def test_an_argument_that_is_assigned_to() -> None:
    """The float32 argument is no cause, though its variable becomes a float64."""

    def kernel(a, out):
        for _ in range(3):
            a *= 0.1
        out[0] = a

    assert causes(kernel, "f4, f4[::1]") == ["out[0]: the literal 0.1 is float64"]


def test_what_a_function_computes_with() -> None:
    """The cause is in the function, whose literal is what to convert."""

    @kd.func
    def third(x):
        return x * 0.3

    def kernel(x, out):
        i = kd.grid(1)
        out[i] = third(x[i])
        out[i] += x.size / 2

    assert causes(kernel, "f4[::1], f4[::1]") == [
        "out[i]: the literal 0.3 is float64",
        "out[i]: x.size / 2 divides integers, which gives float64",
    ]


def test_a_chain_of_many_values() -> None:
    """Longer than Python's limit of nested calls."""
    lines = ["import kerneldsl as kd", "@kd.kernel", "def chain(x, out):", "    i = kd.grid(1)"]
    lines += [f"    v{k} = x[i + {k}]" for k in range(300)]
    lines += ["    for step in range(out.size):"]
    lines += [f"        v{k} = v{k} * v{(k + 7) % 300} + step" for k in range(300)]
    lines += ["    out[i] = v0"]
    chain = exec_source("\n".join(lines) + "\n")["chain"]
    assert chain.ptx("float32[::1], float32[::1]", arch="sm_90")
