"""The manifest's own format: what is written is read, and bad ones are refused."""

from __future__ import annotations

import hashlib
import json

import pytest

from kerneldsl.shipping import manifest as manifest_module
from kerneldsl.shipping.manifest import Entry, File, Index, Manifest, ManifestError, encode_document

DIGEST = "0" * 64
GOOD = Manifest(
    "mypkg",
    "1.0",
    {"axpy-00.o": File(DIGEST, 3), "mypkg.kernels-00.py.txt": File(DIGEST, 3)},
    (
        Entry(
            DIGEST,
            "mypkg.axpy",
            "float32",
            "[grid, block]",
            "sm_90",
            {"a": 1},
            {"object": "axpy-00.o"},
        ),
    ),
    {"mypkg.kernels": "mypkg.kernels-00.py.txt"},
    {DIGEST: [{"add": 1}, [], 0, 0]},
    {DIGEST: [[1, "x"]]},
)


def test_what_is_written_is_read() -> None:
    data = GOOD.encode()
    assert Manifest.decode(data) == GOOD
    assert Manifest.decode(data).encode() == data
    assert data.isascii()
    assert b'": ' not in data  # it is parsed by each process


def test_a_manifest_is_json_with_a_line_for_each_row() -> None:
    data = GOOD.encode()
    document = json.loads(data)
    assert encode_document({k: v for k, v in document.items() if k != "sha256"}) == data
    lines = data.splitlines()
    assert json.loads(lines[2])["key"] == DIGEST
    assert json.loads(b"{%s}" % lines[4]) == GOOD.forms
    assert json.loads(b"{%s}" % lines[6]) == GOOD.works
    assert lines[8].startswith(b'"axpy-00.o":{')


def test_the_order_does_not_matter() -> None:
    first = GOOD.entries[0]
    second = Entry("1" * 64, "mypkg.axpy", "float64", "[grid, block]", "sm_90", {}, {})
    one = Manifest("mypkg", "1.0", GOOD.files, (first, second))
    other = Manifest("mypkg", "1.0", dict(reversed(GOOD.files.items())), (second, first))
    assert one.encode() == other.encode()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d.pop("package"), "package"),
        (lambda d: d.update(format=1), "its format is 1"),
        (
            lambda d: d["files"].update({"../x": {"sha256": DIGEST, "bytes": 1}}),
            "not the name of a file",
        ),
        (lambda d: d["files"].update({"/etc/x": {"sha256": DIGEST, "bytes": 1}}), "not the name"),
        (lambda d: d["files"].update({".": {"sha256": DIGEST, "bytes": 1}}), "not the name"),
        (lambda d: d["files"]["axpy-00.o"].update(sha256="x"), "not a SHA-256"),
        (lambda d: d["files"]["axpy-00.o"].update(bytes="many"), "many"),
        (lambda d: d["files"].pop("axpy-00.o"), "does not list the file 'axpy-00.o'"),
        (lambda d: d["sources"].update(m="x.txt"), "does not list the file 'x.txt'"),
        (lambda d: d["entries"][0].update(key=3), "not a SHA-256"),
        (lambda d: d["entries"][0].update(metadata=[]), "metadata"),
        (lambda d: d["entries"][0].update(files=[]), "cannot be read"),
        (lambda d: d.update(entries=[3]), "cannot be read"),
    ],
)
def test_a_bad_manifest_is_refused(change, said: str) -> None:
    document = json.loads(GOOD.encode())
    del document["sha256"]
    change(document)
    with pytest.raises(ManifestError, match=said):
        Manifest.decode(encode_document(document))


def test_bytes_that_are_not_text_are_not_repeated() -> None:
    with pytest.raises(ManifestError) as caught:
        Manifest.decode(bytes(range(1, 256)) * 20)
    assert len(str(caught.value)) < 120


def test_an_index_reads_what_is_wanted() -> None:
    index = Index(GOOD.encode())
    assert index.find(DIGEST) == GOOD.entries[0]
    assert index.find("1" * 64) is None
    assert index.kernels == {"mypkg.axpy"}
    assert index.kerneldsl == "1.0"
    assert index.file("axpy-00.o") == GOOD.files["axpy-00.o"]
    assert index.source("mypkg.kernels") == "mypkg.kernels-00.py.txt"
    assert index.source("mypkg.others") is None


def test_an_index_refuses_what_is_wanted_and_bad() -> None:
    document = json.loads(GOOD.encode())
    document["entries"][0]["metadata"] = 1
    document["files"]["axpy-00.o"]["sha256"] = "x"
    index = Index(encode_document(document))
    for part in ("forms", "works"):
        assert index.value(part, DIGEST) == getattr(GOOD, part)[DIGEST]
        assert index.value(part, "1" * 64) is None
    with pytest.raises(ManifestError, match="metadata"):
        index.find(DIGEST)
    for name, said in (("axpy-00.o", "axpy"), ("../x", "not the name"), ("y.o", "y.o")):
        with pytest.raises(ManifestError, match=said):
            index.file(name)
    for data in (
        b"",
        b"[]",
        b"{}",
        b"[" * 100_000,
        b"[" * 100_000 + b"\n",
        json.dumps(document).encode(),
        encode_document({**document, "format": 1}),
    ):
        with pytest.raises(ManifestError):
            Index(data)


def test_damage_is_found() -> None:
    data = GOOD.encode()
    for read in (Index, Manifest.decode):
        for damaged in (data[:-1], data.replace(b"sm_90", b"sm_91"), data + b" "):
            with pytest.raises(ManifestError, match="damaged"):
                read(damaged)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 64, 101])
def test_every_entry_and_file_is_found(count: int) -> None:
    keys = [hashlib.sha256(bytes([n])).hexdigest() for n in range(count)]
    names = sorted(
        f"{'ab.-_'[n % 5] if n % 5 < 2 else 'c' + '.-_'[n % 5 - 2]}{n}.o" for n in range(count)
    )
    entries = tuple(
        Entry(key, f"m.k{n % 7}", "int64", "[grid, block]", "sm_90", {"n": n}, {"object": name})
        for n, (key, name) in enumerate(zip(keys, names, strict=True))
    )
    files = {name: File(DIGEST, n) for n, name in enumerate(names)}
    manifest = Manifest("m", "1.0", files, entries)
    index = Index(manifest.encode())
    assert set(Manifest.decode(manifest.encode()).files) == set(names)
    assert [index.find(each.key) for each in entries] == list(entries)
    assert {name: index.file(name) for name in names} == files
    for absent in ("0" * 64, "f" * 64, "8" * 64):
        assert index.find(absent) is None
    for absent in ("0.o", "zz.o", "b"):
        with pytest.raises(ManifestError, match="does not list"):
            index.file(absent)


def test_an_index_parses_the_rows_that_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = tuple(
        Entry(f"{n:064x}", "m.k", "int64", "[grid, block]", "sm_90", {}, {}) for n in range(2000)
    )
    data, parsed = Manifest("m", "1.0", {}, entries).encode(), []
    original = manifest_module.parse_json
    monkeypatch.setattr(
        manifest_module, "parse_json", lambda data: parsed.append(len(data)) or original(data)
    )
    assert Index(data).find(f"{1234:064x}") == entries[1234]
    assert sum(parsed) < 1000 < len(data)
