"""Expressions that nest deeply compile, or are refused with the place and a remedy."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import kerneldsl as kd
from tests.support.extent import full_beyond


def sum_of(count, folder):
    """Return a kernel that adds up so many terms in one expression."""
    file = folder / f"sum_of_{count}.py"
    file.write_text(
        "import kerneldsl as kd\n\n@kd.kernel\ndef deep(x, out):\n    i = kd.grid(1)\n"
        "    if i < out.size:\n        out[i] = " + " + ".join(["x[i]"] * count) + "\n"
    )
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.deep


def refusal_of(call):
    """Return the error that refuses a call; ``None`` if it goes well."""
    try:
        call()
    except kd.UnsupportedConstructError as error:
        return error
    return None


@pytest.mark.parametrize(
    "count", full_beyond([100, 180, *range(220, 245, 4), 260, 300, 2000], [180, 300, 2000])
)
def test_a_sum_of_many_terms(count, tmp_path):
    deep = sum_of(count, tmp_path)
    x, out = np.full(4, 0.1), np.zeros(4)
    expected = 0.1
    for _ in range(count - 1):
        expected += 0.1
    with kd.use("cpu"):
        refused = refusal_of(lambda: deep.forall(4)(x, out))
    if refused is None:
        assert out.tolist() == [expected] * 4, "the order of the additions is the source's"
    else:
        assert count > 180, "so many compile"
        assert "total += c" in refused.remedy
        assert refused.where.filename.endswith(f"sum_of_{count}.py")
    refusal_of(lambda: deep.ptx("float64[::1], float64[::1]", arch="sm_90"))
