"""What every target says of its devices."""

from __future__ import annotations

import json
import math

import kerneldsl as kd
from kerneldsl.placement.registry import get_target

KINDS = ("discrete", "integrated", "virtual", "cpu", "other")


def test_every_device_is_described(target):
    infos = kd.devices(target)
    assert [info.device for info in infos] == list(get_target(target).devices())
    for index, info in enumerate(infos):
        assert (info.target, info.index) == (target, index)
        assert info.kind in KINDS
        assert kd.device_info(str(info)) == info


def test_what_is_said_agrees_with_what_launches_are_checked_against(target):
    for info in kd.devices(target):
        assert info.max_threads_per_block == info.limits.max_threads_per_block
        assert info.max_grid_dim == info.limits.max_grid_dim
        assert info.max_block_dim == info.limits.max_block_dim
        assert info.warp_size == info.limits.warp_size


def test_every_attribute_has_a_value_or_a_reason(target):
    for info in kd.devices(target):
        found = info.to_dict()
        assert json.loads(json.dumps(found)) == found
        for field in info.fields():
            value = found[field.name]
            assert (value is None) == bool(found["unavailable"].get(field.name)), field
            if value is None:
                # A live value is read again: NVML lists no processes while their number changes.
                assert field.is_live or not hasattr(info, field.name)
            elif field.unit in ("bytes", "bits", "kHz", "bytes/s"):
                least = 0 if field.is_live or field.name.startswith("reserved") else 1
                assert value >= least, field


def test_a_usable_device_has_a_score(target):
    for info in kd.devices(target):
        if info.device.unusable_reason() is None:
            assert 10 <= kd.score(info).total < 1040
            assert math.isfinite(kd.score(info).total)
