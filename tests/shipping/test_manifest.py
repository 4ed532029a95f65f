"""The manifest's own format: what is written is read, and bad ones are refused."""

from __future__ import annotations

import json

import pytest

from kerneldsl.shipping.manifest import Entry, File, Index, Manifest, ManifestError

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
    {"uniform": frozenset({DIGEST})},
)


def test_what_is_written_is_read() -> None:
    data = GOOD.encode()
    assert Manifest.decode(data) == GOOD
    assert Manifest.decode(data).encode() == data
    assert data.isascii()
    assert b'": ' not in data  # it is parsed by each process


def test_a_manifest_of_an_earlier_version_has_no_analyses() -> None:
    document = json.loads(GOOD.encode())
    del document["analyses"]
    data = json.dumps(document).encode()
    assert Manifest.decode(data).analyses == Index(data).analyses == {}


def test_the_order_does_not_matter() -> None:
    first = GOOD.entries[0]
    second = Entry("1" * 64, "mypkg.axpy", "float64", "[grid, block]", "sm_90", {}, {})
    one = Manifest("mypkg", "1.0", GOOD.files, (first, second))
    other = Manifest("mypkg", "1.0", dict(reversed(GOOD.files.items())), (second, first))
    assert one.encode() == other.encode()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d.pop("entries"), "entries"),
        (lambda d: d.update(format=2), "its format is 2"),
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
        (lambda d: d.update(entries=3), "cannot be read"),
        (lambda d: d["analyses"].update(uniform=["x"]), "not a SHA-256"),
    ],
)
def test_a_bad_manifest_is_refused(change, said: str) -> None:
    document = json.loads(GOOD.encode())
    change(document)
    with pytest.raises(ManifestError, match=said):
        Manifest.decode(json.dumps(document).encode())


def test_an_index_reads_what_is_wanted() -> None:
    index = Index(GOOD.encode())
    assert index.find(DIGEST) == GOOD.entries[0]
    assert index.find("1" * 64) is None
    assert index.kernels == {"mypkg.axpy"}
    assert (index.kerneldsl, index.analyses) == ("1.0", {"uniform": {DIGEST}})
    assert index.file("axpy-00.o") == GOOD.files["axpy-00.o"]
    assert index.source("mypkg.kernels") == "mypkg.kernels-00.py.txt"
    assert index.source("mypkg.others") is None


def test_an_index_refuses_what_is_wanted_and_bad() -> None:
    document = json.loads(GOOD.encode())
    document["entries"][0]["metadata"] = 1
    document["files"]["axpy-00.o"]["sha256"] = "x"
    index = Index(json.dumps(document).encode())
    with pytest.raises(ManifestError, match="metadata"):
        index.find(DIGEST)
    for name, said in (("axpy-00.o", "axpy"), ("../x", "does not list"), ("y.o", "y.o")):
        with pytest.raises(ManifestError, match=said):
            index.file(name)
    for data in (b"", b"[]", b"{}", b"[" * 100_000, json.dumps({**document, "format": 2}).encode()):
        with pytest.raises(ManifestError):
            Index(data)
