"""The cost model for a device: as ``kerneldsl tune fit`` fitted it to records, or as it ships."""

from __future__ import annotations

import json

from kerneldsl.cache.disk import disk_cache
from kerneldsl.cache.key import Key
from kerneldsl.contract import Device
from kerneldsl.launch.measured import read_json
from kerneldsl.launch.tuned_launch import driver_class
from kerneldsl.planner.fit import FittedModel, read_model

__all__ = ["forget_models", "model_for", "write_model"]

_SECTION = "model"
_SHIPPED = FittedModel()
#: Models that this process has read, by folder, device and class of the driver.
_known: dict[tuple[str, str, str], FittedModel] = {}


def model_for(device: Device) -> FittedModel:
    """Return the cost model for a device; it is looked for once in a process."""
    if device.is_described:
        return _SHIPPED
    cache = disk_cache()
    if not cache.is_on:
        return _SHIPPED
    folder = "" if cache.user is None else str(cache.user.folder.path)
    at = folder, device.name, driver_class(device.software)
    known = _known.get(at)
    if known is None:
        known = _known[at] = _read(_key(device.name, device.software)) or _SHIPPED
    return known


def write_model(device: str, driver: str, model: FittedModel) -> None:
    """Keep a model for devices of a name with drivers of a class."""
    disk_cache().keep(_key(device, driver), {_SECTION: json.dumps(model.to_dict()).encode()})
    forget_models()


def forget_models() -> None:
    """Look for models again."""
    _known.clear()


def _key(device: str, driver: str) -> Key:
    return Key({"entry": "model", "device": device, "driver": driver_class(driver)})


def _read(key: Key) -> FittedModel | None:
    found = read_json(key, _SECTION)
    return None if found is None else read_model(found)
