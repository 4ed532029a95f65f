"""Devices that fail, and choices of policy that are as new in each test."""

from __future__ import annotations

import pytest

import kerneldsl as kd
from targets import null
from tests.support.fake_target import FakeTarget, installed
from tests.support.falling_back import compiled_once, forget_choices


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    forget_choices(monkeypatch)


@pytest.fixture(scope="module", autouse=True)
def compiled():
    with compiled_once():
        yield


@pytest.fixture
def device():
    with null.described_as(null.H100, null.H100) as target, kd.use("null"):
        yield target


@pytest.fixture
def gone():
    with installed(FakeTarget("gone", devices=0)) as target:
        yield target
