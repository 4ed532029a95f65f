"""Every target that compiles has a lowering of every intrinsic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kerneldsl.language.intrinsics.intrinsic import Typing
from kerneldsl.language.intrinsics.table import INTRINSICS
from targets.cpu.intrinsics.table import LOWERINGS
from targets.cuda.intrinsics.table import EMITTERS


@pytest.mark.parametrize("table", [LOWERINGS, EMITTERS], ids=["cpu", "cuda"])
def test_no_lowering_is_missing_and_none_is_left_over(table: Mapping[str, Any]) -> None:
    lowered = {name for name, row in INTRINSICS.items() if row.typing is not Typing.CONSTANT}
    assert table.keys() == lowered
