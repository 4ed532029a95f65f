"""Launches repeated by native code: captured constants are those of now."""

from __future__ import annotations

import sys
import types

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import kerneldsl as kd
from tests.support.extent import examples
from tests.support.launched import begin_anew
from tests.support.native import is_native, warm_up


@pytest.fixture(autouse=True)
def native():
    begin_anew(captures, attributes)


SCALE = 2.0
OFFSET = 1
FACTORS = np.array([3.0, 4.0])
FACTORS.flags.writeable = False


@kd.func
def twice(value):
    return 2.0 * value


@kd.func
def thrice(value):
    return 3.0 * value


@kd.kernel
def captures(out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = twice(SCALE) * FACTORS[1] + OFFSET + np.pi


def test_captured_values_are_compared_by_identity(monkeypatch):
    out = np.zeros(4)
    module = sys.modules[__name__]
    with kd.use("cpu"):
        launch = captures.forall(4)
        warm_up(launch, out)
        for name, value, expected in (
            ("SCALE", 3.0, 6.0 * 4.0 + 1),
            ("OFFSET", 7, 4.0 * 4.0 + 7),
            ("FACTORS", np.array([1.0, 5.0]), 4.0 * 5.0 + 1),
            ("twice", thrice, 6.0 * 4.0 + 1),
        ):
            with monkeypatch.context() as patch:
                if name == "FACTORS":
                    value.flags.writeable = False
                patch.setattr(module, name, value)
                for _ in range(4):
                    out[...] = np.nan
                    launch(out)
                    np.testing.assert_allclose(out, expected + np.pi)
            for _ in range(4):
                out[...] = np.nan
                launch(out)
                np.testing.assert_allclose(out, 4.0 * 4.0 + 1 + np.pi)
            warm_up(launch, out)
            with is_native(launch):
                launch(out)


_CHANGES = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(("SCALE", "OFFSET")), st.sampled_from((1.0, 2.0, 3.0))),
        st.tuples(st.sampled_from(("SOMETHING_ELSE", "ANOTHER_THING")), st.integers(0, 2)),
    ),
    max_size=12,
)


@hypothesis.settings(max_examples=examples(30), deadline=None)
@hypothesis.given(changes=_CHANGES)
def test_whatever_happens_to_a_module_its_values_are_those_of_now(changes):
    """Values come and go and come back, and names that the kernel does not know of."""
    names, out = vars(sys.modules[__name__]), np.zeros(4)
    saved = {name: names[name] for name in ("SCALE", "OFFSET")}
    try:
        with kd.use("cpu"):
            launch = captures.forall(4)
            warm_up(launch, out)
            for name, value in changes:
                if value == 0:
                    names.pop(name, None)
                else:
                    names[name] = value
                for _ in range(3):
                    out[...] = np.nan
                    launch(out)
                    expected = 2.0 * names["SCALE"] * FACTORS[1] + names["OFFSET"] + np.pi
                    np.testing.assert_allclose(out, expected)
    finally:
        names.update(saved)
        for name in ("SOMETHING_ELSE", "ANOTHER_THING"):
            names.pop(name, None)


def test_another_name_of_a_module_leaves_launches_to_native_code(monkeypatch):
    out = np.zeros(4)
    with kd.use("cpu"):
        launch = captures.forall(4)
        warm_up(launch, out)
        for value in range(5):
            monkeypatch.setitem(globals(), "SOMETHING_ELSE", value)
            with is_native(launch):
                launch(out)


class Settings:
    WIDTH = 3


class Narrow(Settings):
    pass


@kd.kernel
def attributes(out):
    out[kd.grid(1)] = Settings.WIDTH + 10 * Narrow.WIDTH


def test_attributes_of_classes_are_looked_at(monkeypatch):
    out = np.zeros(3)
    with kd.use("cpu"):
        launch = attributes.forall(3)
        for owner, value, expected in (
            (Settings, 3, 33),
            (Settings, 4, 44),
            (Narrow, 5, 53),
        ):
            with monkeypatch.context() as patch:
                patch.setattr(owner, "WIDTH", value, raising=False)
                launch(out)
                np.testing.assert_array_equal(out, expected)
                warm_up(launch, out)
                out[...] = 0
                with is_native(launch):
                    launch(out)
                np.testing.assert_array_equal(out, expected)
        with monkeypatch.context() as patch:
            patch.delattr(Settings, "WIDTH")
            with pytest.raises(kd.KernelError, match="WIDTH"):
                launch(out)


settings = types.ModuleType("settings")
settings.WIDTH = 3


@kd.kernel
def reads_a_module(out):
    out[kd.grid(1)] = settings.WIDTH


class Computed(types.ModuleType):
    @property
    def WIDTH(self):
        return 7


def test_a_modules_class_is_looked_at():
    out = np.zeros(3)
    with kd.use("cpu"):
        launch = reads_a_module.forall(3)
        warm_up(launch, out)
        with is_native(launch):
            launch(out)
        np.testing.assert_array_equal(out, 3)
        settings.__class__ = Computed
        try:
            launch(out)
        finally:
            settings.__class__ = types.ModuleType
        np.testing.assert_array_equal(out, 7)
        launch(out)
        np.testing.assert_array_equal(out, 3)


def test_a_deleted_constant_is_an_error(monkeypatch):
    with kd.use("cpu"):
        launch = captures.forall(4)
        out = np.zeros(4)
        warm_up(launch, out)
        with monkeypatch.context() as patch:
            patch.delattr(sys.modules[__name__], "OFFSET")
            with pytest.raises(kd.KernelError, match="OFFSET"):
                launch(out)
        launch(out)
        np.testing.assert_allclose(out, 17 + np.pi)


def test_a_closures_variable_is_looked_at():
    def make():
        scale = 2

        @kd.kernel
        def scaled(out):
            out[kd.grid(1)] = scale

        def change(value):
            nonlocal scale
            scale = value

        return scaled, change

    scaled, change = make()
    out = np.zeros(3)
    with kd.use("cpu"):
        launch = scaled.forall(3)
        for value in (2, 3, 2, 5):
            change(value)
            warm_up(launch, out)
            out[...] = np.nan
            with is_native(launch):
                launch(out)
            np.testing.assert_array_equal(out, value)
        change(8)
        launch(out)
        np.testing.assert_array_equal(out, 8)
