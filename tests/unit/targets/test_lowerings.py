"""Every target that compiles has a lowering of every intrinsic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.language.intrinsics.intrinsic import Typing
from kerneldsl.language.intrinsics.table import INTRINSICS
from targets.cpu.intrinsics.table import LOWERINGS
from targets.cuda.intrinsics.table import EMITTERS


@pytest.mark.parametrize("table", [LOWERINGS, EMITTERS], ids=["cpu", "cuda"])
def test_no_lowering_is_missing_and_none_is_left_over(table: Mapping[str, Any]) -> None:
    lowered = {name for name, row in INTRINSICS.items() if row.typing is not Typing.CONSTANT}
    assert table.keys() == lowered


@kd.func
def counted(value):
    return kd.popc(value)


@pytest.mark.parametrize(
    ("target", "table"), [("cpu", LOWERINGS), ("cuda", EMITTERS)], ids=["cpu", "cuda"]
)
def test_a_missing_lowering_is_told(
    target: str, table: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(table, "popc")
    monkeypatch.setenv("KERNELDSL_CACHE", "off")

    @kd.kernel
    def counts(x):
        x[0] = counted(x[0])

    compiles = {
        "cpu": lambda: counts[1, 1](np.ones(1, np.int64)),
        "cuda": lambda: counts.ptx("int64[::1]", arch="sm_90"),
    }
    with pytest.raises(kd.UnsupportedConstructError) as caught:
        compiles[target]()
    text = str(caught.value)
    assert f"kd.popc has no lowering on the target '{target}'" in text
    assert caught.value.where is not None
    assert "kd.popc(value)" in caught.value.where.line
    assert f"targets/{target}/intrinsics/table.py" in text
