"""The order and the scope of an access are constants, of those that it can have."""

from __future__ import annotations

import re

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.errors import UnsupportedConstructError


def _loading(order: object, scope: object) -> kd.Kernel:
    @kd.kernel
    def load(x, out):  # type: ignore[no-untyped-def]
        i = kd.grid(1)
        out[i] = kd.atomic.load(x, i, order=order, scope=scope)

    return load


@pytest.mark.parametrize(
    ("order", "scope", "text"),
    [
        ("release", "device", "order is 'release'. Write one of 'relaxed', 'acquire', 'seq_cst'"),
        ("acquire", "grid", "scope is 'grid'. Write one of 'block', 'device', 'system'"),
        (3, "device", "order is 3."),
    ],
)
def test_another_word_is_refused(order: object, scope: object, text: str) -> None:
    with kd.use("cpu"), pytest.raises(UnsupportedConstructError, match=re.escape(text)):
        _loading(order, scope)[1, 4](np.zeros(4), np.zeros(4))


def test_the_order_is_a_constant() -> None:
    @kd.kernel
    def load(x, order, out):  # type: ignore[no-untyped-def]
        out[0] = kd.atomic.load(x, 0, order)

    with kd.use("cpu"), pytest.raises(UnsupportedConstructError, match="order is order"):
        load[1, 1](np.zeros(4), 1, np.zeros(4))
