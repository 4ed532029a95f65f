"""A description of a device as a value: what it answers, what it refuses, how it looks."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
from html.parser import HTMLParser

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.contract import Device, DeviceInfo, DeviceLimits
from kerneldsl.contract.info_display import format_value
from targets import null
from tests.support.fake_target import FakeTarget, installed

LIMITS = DeviceLimits(1024, (1024, 1024, 64), (2**31 - 1, 65535, 65535), 49152, 32, 4)
GPU = Device("fake", 1, "a <b>fake</b>", "sm_fake", LIMITS, kind="discrete")


def refuse():
    raise kd.AttributeUnavailableError("The sensor is asleep")


def fail():
    raise kd.DeviceError("Could not ask", code=1, name="CUDA_ERROR_UNKNOWN", remedy="Ask later")


@pytest.fixture
def info():
    return DeviceInfo(
        GPU,
        {"total_memory_bytes": 2**30, "supports_fp8": False},
        {"uuid": "It was never given one"},
        {"supports_fp8": "It is too old"},
        {"power_watts": refuse, "temperature_celsius": lambda: 41.0, "free_memory_bytes": fail},
    )


def test_it_is_frozen(info):
    with pytest.raises(dataclasses.FrozenInstanceError):
        info.name = "other"
    with pytest.raises(dataclasses.FrozenInstanceError):
        info.total_memory_bytes = 1


def test_what_it_was_made_of_may_change_without_it():
    values = {"total_memory_bytes": 1}
    info = DeviceInfo(GPU, values)
    values["total_memory_bytes"] = 2
    assert info.total_memory_bytes == 1
    with pytest.raises(TypeError):
        info.values["total_memory_bytes"] = 2


def test_what_the_device_says_is_there_without_the_target(info):
    assert (info.target, info.index, str(info)) == ("fake", 1, "fake:1")
    assert (info.name, info.kind, info.arch) == ("a <b>fake</b>", "discrete", "sm_fake")
    assert info.limits is LIMITS
    assert (info.warp_size, info.multiprocessor_count) == (32, 4)
    assert info.max_grid_dim == LIMITS.max_grid_dim


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("uuid", "uuid of fake:1 is unavailable. It was never given one"),
        ("power_watts", "power_watts of fake:1 is unavailable. The sensor is asleep"),
        ("free_memory_bytes", "Could not ask. Ask later"),
        ("ecc", None),
        ("is_ecc_enabled", "The target 'fake' does not report it"),
        ("physical_core_count", "fake:1 is no CPU"),
    ],
)
def test_what_cannot_be_had_raises_and_says_why(info, name, words):
    assert not hasattr(info, name)
    assert getattr(info, name, "nothing") == "nothing"
    if words is not None:
        with pytest.raises(kd.AttributeUnavailableError) as raised:
            getattr(info, name)
        assert words in str(raised.value)
        assert raised.value.value == name


def test_an_unknown_name_lists_those_there_are(info):
    with pytest.raises(kd.AttributeUnavailableError, match=r"no such attribute.*l2_cache_bytes"):
        info.get("memory")


def test_live_values_are_read_each_time():
    readings = iter((40.0, 41.0, 42.0))
    info = DeviceInfo(GPU, readers={"temperature_celsius": lambda: next(readings)})
    assert [info.temperature_celsius, info.temperature_celsius] == [40.0, 41.0]
    assert info.live()["temperature_celsius"] == 42.0


def test_to_dict_has_every_name_and_a_reason_for_each_gap(info):
    found = info.to_dict()
    assert json.loads(json.dumps(found)) == found
    names = [f.name for f in info.fields()]
    assert list(found) == ["device", "target", "index", *names, "unavailable", "reasons"]
    gaps = {name for name in names if found[name] is None}
    assert set(found["unavailable"]) == gaps
    assert all(found["unavailable"].values())
    assert found["unavailable"]["power_watts"] == "The sensor is asleep"
    assert found["temperature_celsius"] == 41.0
    assert found["reasons"] == {"supports_fp8": "It is too old"}


def test_to_dict_without_live_values_reads_none(info):
    found = info.to_dict(live=False)
    live = {f.name for f in info.fields(is_live=True)}
    assert {"power_watts", "processes", "free_memory_bytes"} <= live
    assert not live & set(found)


def test_a_cpu_and_a_gpu_have_attributes_of_their_own():
    gpu = {f.name for f in DeviceInfo(GPU).fields()}
    cpu = {f.name for f in kd.device_info("cpu").fields()}
    assert {"vector_extension", "l3_cache_bytes"} <= cpu - gpu
    assert {"compute_capability", "uuid", "is_ecc_enabled"} <= gpu - cpu
    with pytest.raises(kd.AttributeUnavailableError, match="cpu is a CPU"):
        kd.device_info("cpu").uuid


def test_why(info):
    assert info.why("supports_fp8") == "It is too old"
    assert info.why("uuid") == "It was never given one"
    assert "fake:1" in info.why("total_memory_bytes")


def test_equal_when_they_say_the_same(info):
    same = DeviceInfo(GPU, {"total_memory_bytes": 2**30, "supports_fp8": False})
    assert info == same
    assert hash(info) == hash(same)
    assert info != DeviceInfo(GPU, {"total_memory_bytes": 2**31, "supports_fp8": False})
    assert kd.device_info("cpu") == kd.device_info("cpu")


def _through_pickle(info):
    return pickle.loads(pickle.dumps(info))  # noqa: S301 -- our own bytes


@pytest.mark.parametrize("through", [_through_pickle, copy.deepcopy])
def test_a_copy_knows_what_is_static_and_reads_nothing(info, through):
    sent = through(info)
    assert sent == info
    assert sent.why("uuid") == "It was never given one"
    with pytest.raises(kd.AttributeUnavailableError, match="another process"):
        sent.temperature_celsius


def test_repr_is_a_table_that_reads_nothing_live():
    def touched():
        raise AssertionError("repr reads nothing live")

    names = [f.name for f in DeviceInfo(GPU).fields(is_live=True)]
    text = repr(
        DeviceInfo(GPU, {"total_memory_bytes": 80 * 2**30}, {}, {}, dict.fromkeys(names, touched))
    )
    lines = text.splitlines()
    assert lines[0] == "fake:1"
    assert any(line.split() == ["total_memory_bytes", "80", "GiB"] for line in lines)
    assert "uuid" not in text, "what cannot be had is left out of the short table"
    assert max(map(len, lines)) <= 100


def test_html_is_balanced_and_escaped(info):
    open_tags = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag, attributes):
            open_tags.append(tag)

        def handle_endtag(self, tag):
            assert open_tags.pop() == tag

    text = info._repr_html_()
    Reader().feed(text)
    assert open_tags == []
    assert "<b>fake" not in text
    assert "not available: It was never given one" in text


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("total_memory_bytes", 150_109_880_320, "140 GiB"),
        ("peak_bandwidth_bytes_per_s", 4.814e12, "4.81 TB/s"),
        ("peak_bandwidth_bytes_per_s", 45.7e9, "45.7 GB/s"),
        ("clock_rate_khz", 1_980_000, "1.98 GHz"),
        ("clock_rate_khz", 950_000, "950 MHz"),
        ("compute_capability", (9, 0), "9.0"),
        ("driver_version", "580.1", "580.1"),
        ("max_block_dim", (1024, 1024, 64), "1024 × 1024 × 64"),
        ("vector_extensions", ("AVX2", "AVX"), "AVX2, AVX"),
        ("is_ecc_enabled", True, "yes"),
        ("supports_fp8", False, "no"),
        ("async_engine_count", 0, "0"),
        ("power_watts", 130.185, "130.2 W"),
        ("temperature_celsius", 36.0, "36 °C"),
        ("utilization_percent", 0.0, "0 %"),
        ("processes", ((7, 2**20), (8, None)), "7 (1 MiB), 8 (?)"),
        ("processes", (), "none"),
    ],
)
def test_values_for_a_reader(name, value, text):
    assert format_value(getattr(DeviceInfo, name), value) == text


def test_it_stands_wherever_a_device_is_taken():
    with installed(FakeTarget()) as fake:
        second = kd.devices("fake")[1]
        assert isinstance(second, DeviceInfo)
        with kd.use(second):
            assert kd.current_target() == "fake:1"
            assert kd.device_info() == second
        array = kd.full(3, 7.0, device=second)
        assert array.copy_to_host().tolist() == [7.0] * 3
        kd.synchronize(second)
        assert kd.score(second).device == "fake:1"
        assert fake.found[1] == second.device


def test_devices_are_those_with_hardware_unless_a_target_is_named():
    assert "null" not in {d.target for d in kd.devices()}
    assert "cpu" in {d.target for d in kd.devices()}
    with null.described_as(null.H100, null.SMALL_OLD_CARD):
        assert [str(d) for d in kd.devices("null")] == ["null:0", "null:1"]
    with pytest.raises(kd.UnknownTargetError, match="cpu, cuda, null"):
        kd.devices("gpu")


@pytest.mark.parametrize("device", [null.H100, null.SMALL_OLD_CARD], ids=["H100", "old"])
def test_null_devices_are_described_in_full_but_for_what_needs_hardware(device):
    with null.described_as(device):
        found = kd.device_info("null").to_dict()
    assert set(found["unavailable"]) == {
        "uuid",
        "pci_address",
        "driver_version",
        "runtime_version",
        "utilization_percent",
        "memory_utilization_percent",
        "temperature_celsius",
        "power_watts",
        "power_limit_watts",
        "current_clock_mhz",
        "current_memory_clock_mhz",
        "processes",
    }
    assert found["supports_fp8"] is (device is null.H100)
    assert found["reserved_shared_memory_per_block_bytes"] in (0, 1024)


def test_a_null_devices_free_memory_falls_with_an_array():
    with null.described_as(null.H100):
        info = kd.device_info("null")
        # What the pool has kept of earlier arrays would serve this one, and nothing would fall.
        kd.MemoryPool.default("null").trim()
        before = info.free_memory_bytes
        array = kd.zeros(2**20, np.float32, device="null")
        assert before - info.free_memory_bytes == array.nbytes
        array.close()
        assert before - info.free_memory_bytes == array.nbytes, "the pool keeps it"
        kd.MemoryPool.default("null").trim()
        assert info.free_memory_bytes == before


@pytest.mark.parametrize(
    ("spec", "error", "words"),
    [
        ("cpu:1", kd.DeviceMismatchError, "there is no device cpu:1.*has 1 device here"),
        ("null:7", kd.DeviceMismatchError, "there is no device null:7"),
        ("cpu:-1", kd.UnknownTargetError, "names no device"),
        ("gpu", kd.UnknownTargetError, r"no target is named .gpu.\..* Write .cuda.\."),
        ("GPU1", kd.UnknownTargetError, r"Write .cuda:1.\."),
        ("CPU", kd.UnknownTargetError, r"Write .cpu.\."),
        (0, kd.UnknownTargetError, r"0 names no device.*Name it so"),
        (kd, kd.UnknownTargetError, r"<module .* names no device"),
    ],
)
def test_devices_that_are_not_there(spec, error, words):
    for use in (kd.device_info, kd.use, kd.Stream):
        with pytest.raises(error, match=words):
            use(spec)


def test_another_librarys_device_goes_by_its_text():
    class Foreign:
        def __str__(self):
            return "null:0"

    assert str(kd.device_info(Foreign())) == "null:0"
