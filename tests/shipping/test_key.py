"""What shipped code is found by, and what is no part of that."""

from __future__ import annotations

import ast
import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

import kerneldsl as kd
from kerneldsl.cache.reasons import UncacheableError
from kerneldsl.contract.abi import LaunchMode
from kerneldsl.frontend.fingerprint import _tree_text
from kerneldsl.placement.registry import get_target
from kerneldsl.shipping import key as key_module
from kerneldsl.shipping.key import CALLING_CONVENTION, shipped_keys
from targets.cpu.runtime.objects import VERSION
from tests.shipping.programs import ROOT

#: What decides how compiled code is called. Code that was shipped before keeps its version.
_CONVENTION = (
    "kerneldsl/contract/abi.py",
    "targets/cpu/runtime/native_tables.py",
    "targets/cuda/compile/parameters.py",
)
_DIGEST = "1 bf9f6b81b90b2435"
#: What the code of the process is made by, which packages ship, too.
_PROCESS_CODE = (
    "targets/cpu/runtime/native_tables.py",
    "targets/cpu/runtime/native_writer.py",
    "targets/cpu/runtime/pool_code.py",
    "targets/cpu/runtime/runner_code.py",
    "targets/cpu/runtime/signal_handlers.py",
)
_PROCESS_DIGEST = "2 bbef154c7b0ba0a8"


@kd.kernel
def double(x):
    i = kd.grid(1)
    if i < x.size:
        x[i] *= 2


def _specialization(**changes):
    _, found = double.specialization("float32[::1]", forall=1, target="cpu")
    return replace(found, **changes)


def _key(**changes) -> str:
    return shipped_keys(_specialization(**changes), "cpu", ("x86-64-v3",))["x86-64-v3"].digest


def test_the_toolchain_is_no_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    (key,) = shipped_keys(_specialization(), "cpu", ("x86-64-v3",)).values()
    assert {"calling convention", "target", "signature", "arch", "kernel"} <= {*key.components}
    for name in ("python", "numpy", "numba", "llvmlite", "kerneldsl", "processor"):
        assert not any(name in each for each in key.components)
    assert _key(arch="native") == _key(arch="x86-64-v2") == key.digest
    monkeypatch.setattr(key_module, "CALLING_CONVENTION", CALLING_CONVENTION + 1)
    assert _key() != key.digest


def test_what_is_part_of_it() -> None:
    usual = _specialization()
    different = [
        {},
        {"block_dim": (64, 1, 1)},
        {"ptx_version": "8.0"},
        {"mode": LaunchMode(2)},
        {"options": replace(usual.options, fastmath=True)},
        {"promises": replace(usual.promises, is_disjoint=True)},
    ]
    assert len({_key(**each) for each in different}) == len(different)
    keys = shipped_keys(usual, "cpu", ("x86-64-v2", "x86-64-v3"))
    assert len({each.digest for each in keys.values()}) == 2


@pytest.mark.parametrize("option", ["debug", "lineinfo"])
def test_what_is_never_shipped(option: str) -> None:
    with pytest.raises(UncacheableError, match="files and lines"):
        _key(options=replace(_specialization().options, **{option: True}))


def test_a_change_of_the_calling_convention_has_a_version() -> None:
    """If this fails, decide whether code that is shipped already can be called as before.

    If it cannot, increase `CALLING_CONVENTION`. In either case, update the digest.
    """
    assert f"{CALLING_CONVENTION} {_digest_of(_CONVENTION)}" == _DIGEST


def test_a_change_of_the_code_of_the_process_has_a_version() -> None:
    """If this fails, increase `VERSION` of ``targets/cpu/runtime/objects.py``.

    Update the digest, too. A change that leaves the machine code as it is takes a new digest alone.
    """
    assert f"{VERSION} {_digest_of(_PROCESS_CODE)}" == _PROCESS_DIGEST


def _digest_of(names: tuple[str, ...]) -> str:
    digest = hashlib.sha256()
    for name in names:
        tree = ast.parse(Path(ROOT, name).read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                node.value = ast.Constant("")  # docstrings
        digest.update(_tree_text(tree).encode())
    return digest.hexdigest()[:16]


def test_the_families_of_targets() -> None:
    assert get_target("cpu").compiler.code_family == "cpu"
    assert get_target("null").compiler.code_family == get_target("cuda").compiler.code_family
