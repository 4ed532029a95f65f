"""Records in the T4 results format of autotuning tools: written, and read again.

A document holds one launch. The format has no fields for the key of a record, the interval of its
time and the inputs of the cost model. They are added to each result, and other tools ignore them. A
document of another tool has no such fields and cannot be imported.

References
----------
F.-J. Willemsen et al., "A Methodology for Comparing Auto-Tuning Optimization Algorithms", FGCS 159,
2024; the schema of github.com/autotuning-methodology/benchmark_hub.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kerneldsl.cache.key import Key
from kerneldsl.errors import ArgumentValueError
from kerneldsl.launch.measured import Measured, PlanChoices, read_measured, read_plan
from kerneldsl.launch.tuned_launch import TunedLaunch
from kerneldsl.tuning.records import LaunchRecords, PlanRecord, about_plan, record_of
from kerneldsl.utilities.paths import writing
from kerneldsl.utilities.untrusted import parse_json

__all__ = [
    "SCHEMA_VERSION",
    "configuration_of",
    "read_documents",
    "t4_result",
    "to_document",
    "write_documents",
]

SCHEMA_VERSION = "1.0.0"


def configuration_of(plan: PlanChoices) -> dict[str, Any]:
    """Return what a plan decides, by name, for people and tools."""
    found: dict[str, Any] = {"block": plan.block_dim}
    if plan.parameters:
        found |= dict(plan.parameters)
    elif plan.host is None:
        mapping = plan.mapping
        found |= {"items": mapping.items, "vector": mapping.vector, "order": mapping.order}
    if plan.host is not None:
        found |= {"threads": plan.host.threads, "chunk": plan.host.chunk}
    return found


def t4_result(plan: PlanChoices, measured: Measured) -> dict[str, Any]:
    """Return a measurement as a result of the format."""
    is_right = measured.median_ns is not None
    return {
        "configuration": configuration_of(plan),
        "objectives": ["time"],
        "invalidity": "correct" if is_right else "runtime",
        "correctness": int(is_right),
        "measurements": [{"name": "time", "value": measured.median_ns, "unit": "ns"}]
        if is_right
        else [],
    }


def to_document(records: LaunchRecords, *, best_alone: bool = False) -> dict[str, Any]:
    """Return the records of a launch as a document.

    - `records`: records of one launch.
    - `best_alone`: without all but the chosen plan, and without what only this machine's cache can
      use: a table that a package ships.
    """
    best = records.best
    chosen = records.chosen or (None if best is None else best.plan)
    metadata: dict[str, Any] = {
        "launch": records.launch.to_dict(),
        "chosen": None if chosen is None else asdict(chosen),
    }
    if best_alone:
        shown = [each for each in records.plans if each.plan == chosen][:1]
        results = [t4_result(each.plan, each.measured) for each in shown]
        return {"schema_version": SCHEMA_VERSION, "metadata": metadata, "results": results}
    # Components common to all keys are written once.
    keys = [each.key.components for each in records.plans]
    shared = {k: v for k, v in keys[0].items() if all(o.get(k) == v for o in keys)} if keys else {}
    choice_key = records.choice_key
    metadata |= {
        "choice": records.digest,
        "choice_key": None if choice_key is None else dict(choice_key.components),
        "key": shared,
    }
    results = []
    for each in records.plans:
        about = about_plan(records, each)
        del about["launch"], about["choice"]
        own = {k: v for k, v in each.key.components.items() if k not in shared}
        beside = {"measured": asdict(each.measured), "key": own, **about}
        results.append({**t4_result(each.plan, each.measured), "record": beside})
    return {"schema_version": SCHEMA_VERSION, "metadata": metadata, "results": results}


def write_documents(
    path: Path, records: Iterable[LaunchRecords], *, best_alone: bool = False
) -> int:
    """Write records into a file, a list of documents; return how many launches."""
    documents = [to_document(each, best_alone=best_alone) for each in records]
    with writing(path):
        path.write_text(json.dumps(documents, indent=1) + "\n", encoding="utf-8")
    return len(documents)


def read_documents(path: Path) -> tuple[list[LaunchRecords], int]:
    """Read a file of documents; return the records, and how many results could not be read.

    - raises `ArgumentValueError` if the file holds no documents.
    - raises `OSError` if it cannot be read.
    """
    try:
        found = parse_json(path.read_bytes())
        documents = found if isinstance(found, list) else [found]
        if not all(isinstance(each, dict) and "results" in each for each in documents):
            raise ValueError("a document has results")
    except ValueError as error:
        raise ArgumentValueError(
            f"{path} holds no records of tuning: {error}",
            value=str(path),
            limit="A file of records is JSON in the T4 results format",
            remedy="Write one: kerneldsl tune export FILE",
        ) from error
    records, refused = [], 0
    for document in documents:
        made, count = _read_document(document)
        refused += count
        if made is not None:
            records.append(made)
    return records, refused


def _read_document(document: Mapping[str, Any]) -> tuple[LaunchRecords | None, int]:
    results = document["results"]
    try:
        about = document["metadata"]
        launch, digest = TunedLaunch.from_dict(about["launch"]), about["choice"]
        shared, choice_key = about["key"], about["choice_key"]
        made = LaunchRecords(launch, str(digest))
        if choice_key is not None:
            made.choice_key = _key(choice_key)
            if made.choice_key.digest != digest:
                raise ValueError("the key of the choice has another digest")
    except (KeyError, TypeError, ValueError):
        return None, len(results)
    refused = 0
    for result in results:
        try:
            made.plans.append(_read_result(result["record"], shared))
        except (KeyError, TypeError, ValueError):
            refused += 1
    return made, refused


def _read_result(found: Mapping[str, Any], shared: Mapping[str, str]) -> PlanRecord:
    plan, measured = read_plan(found["plan"]), read_measured(found["measured"])
    if plan is None or measured is None:
        raise ValueError("no plan, or no measurement")
    return record_of(_key({**shared, **found["key"]}), plan, measured, found)


def _key(components: Mapping[str, Any]) -> Key:
    """Return the key of a record; keys that name executable code are rejected."""
    if not all(isinstance(each, str) for each in components.values()):
        raise TypeError("a key has texts")
    if components.get("entry") not in ("measurement", "choice"):
        raise ValueError("not the key of a record")
    return Key(dict(components))
