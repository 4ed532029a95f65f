"""The precision of products that a program chooses for all kernels."""

from __future__ import annotations

import numpy as np
import pytest

import kerneldsl as kd


@kd.kernel
def _product(a, c):  # type: ignore[no-untyped-def]
    x = kd.tile.load(a, (0, 0), (16, 16))
    kd.tile.store(c, (0, 0), kd.mma(x, x.T))


def _precisions() -> set[str]:
    unit = _product._dispatcher.state().unit
    return {use.static["precision"] for use in unit.uses.values() if use.intrinsic.name == "mma"}


def test_kernels_are_compiled_for_the_choice() -> None:
    assert _precisions() == {"ieee"}
    with kd.use(mma="reference") as chosen:
        assert repr(chosen) == "kerneldsl.use(mma='reference')"
        assert _precisions() == {"reference"}
        with kd.use("cpu", mma="fast") as inner:
            assert repr(inner) == "kerneldsl.use('cpu', mma='fast')"
            assert kd.current_target() == "cpu"
            assert _precisions() == {"ieee"}
        assert _precisions() == {"reference"}
        a, c = np.ones((16, 16), np.float32), np.zeros((16, 16), np.float32)
        with kd.use("cpu"):
            for _ in range(3):
                _product[1, 32](a, c)
        assert (c == 16).all()
    assert _precisions() == {"ieee"}


def test_refusals() -> None:
    with pytest.raises(kd.ArgumentValueError, match="'fast', 'reference'"):
        kd.use(mma="exact")
    with pytest.raises(kd.ArgumentTypeError, match="neither a device nor mma="):
        kd.use()


@pytest.mark.parametrize("about", [{"device": "no such target"}, {"mma": "exact"}])
def test_a_wrong_argument_chooses_nothing(about: dict[str, str]) -> None:
    before = kd.current_target()
    with pytest.raises(kd.KernelError):
        kd.use(**{"device": "null", "mma": "reference", **about})
    assert kd.current_target() == before
    assert _precisions() == {"ieee"}
