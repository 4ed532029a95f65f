"""Entries that were changed behind the cache's back: each is a miss, and never a wrong result."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kerneldsl.cache import entry
from kerneldsl.cache.disk import DiskCache, counters
from kerneldsl.cache.entry import MAGIC, Entry, decode, encode
from kerneldsl.cache.reasons import BadEntry, Reason
from kerneldsl.cache.settings import read_settings
from kerneldsl.cache.store import Store
from tests.cache.processes import needs_fork
from tests.cache.trials import Trials, key_of, sections_of

KEY = key_of(0)
SECRET = b"a secret of this test"


def reason_of(data: bytes, **options: object) -> Reason:
    with pytest.raises(BadEntry) as raised:
        decode(data, **options)
    return raised.value.reason


@pytest.mark.parametrize("secret", [None, SECRET], ids=["unsigned", "signed"])
def test_every_bit(folder: Path, store: Store, trials: Trials, secret: bytes | None) -> None:
    store = Store(store.folder, secret)
    store.write(KEY, sections_of(KEY))
    path = store.path_of(KEY)
    good = path.read_bytes()
    for bit in range(8 * len(good)):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        path.write_bytes(bad)
        outcome = trials.read(store, KEY)
        assert outcome.startswith("miss"), (bit, outcome)
    path.write_bytes(good)
    assert trials.read(store, KEY) == "right"
    trials.check(at_least=8 * len(good))


def test_every_length(store: Store, trials: Trials) -> None:
    store.write(KEY, sections_of(KEY))
    path = store.path_of(KEY)
    good = path.read_bytes()
    for length in range(len(good)):
        path.write_bytes(good[:length])
        assert trials.read(store, KEY).startswith("miss"), length
        # What a file system leaves that gave the file its length before its contents.
        padded = good[:length].ljust(len(good), b"\0")
        path.write_bytes(padded)
        # The last bytes are of a digest, and may be zeros.
        outcome = "right" if padded == good else "miss"
        assert trials.read(store, KEY).startswith(outcome), length
    for more in (b"\0", b"\n", os.urandom(64), good):
        path.write_bytes(good + more)
        assert trials.read(store, KEY) == "miss: length"
    trials.check(at_least=2 * len(good))


def test_random_bytes(store: Store, trials: Trials, rng) -> None:
    path = store.path_of(KEY)
    for _ in range(300):
        data = rng.bytes(rng.integers(0, 400))
        path.write_bytes(MAGIC + data if rng.random() < 0.5 else data)
        assert trials.read(store, KEY).startswith("miss")
    trials.check(at_least=300)


def test_damage_is_put_aside_and_counted(store: Store, cache: DiskCache, trials: Trials) -> None:
    cache.keep(KEY, sections_of(KEY))
    path = store.path_of(KEY)
    path.write_bytes(path.read_bytes()[:-1])
    assert cache.look_up(KEY) is None
    assert not path.exists()
    assert [q.path.name for q in store.quarantined()] == [f"{KEY.digest}.kdc.length"]
    assert counters.read().misses == {"length": 1}
    assert cache.keep(KEY, sections_of(KEY))
    assert trials.look_up(cache, KEY) == "right"
    trials.check()


def test_the_quarantine_is_bounded(store: Store) -> None:
    for number in range(40):
        store.path_of(key_of(number)).write_bytes(b"damaged")
        with pytest.raises(BadEntry):
            store.read(key_of(number))
    assert len(store.quarantined()) <= 17
    assert not store.listed()


def test_an_entry_under_the_name_of_another(store: Store, trials: Trials) -> None:
    """As if two keys had one digest, or somebody had renamed a file."""
    other = key_of(1)
    store.write(other, sections_of(other))
    store.path_of(other).rename(store.path_of(KEY))
    assert trials.read(store, KEY) == "miss: key"
    trials.check()


def test_an_edit_that_keeps_size_and_time(store: Store, trials: Trials) -> None:
    for offset in (0, 8, 40, 90, -1):
        store.write(KEY, sections_of(KEY))
        path = store.path_of(KEY)
        before = path.stat()
        data = bytearray(path.read_bytes())
        data[offset] ^= 0xFF
        path.write_bytes(data)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert path.stat().st_size == before.st_size
        assert trials.read(store, KEY).startswith("miss")
    trials.check(at_least=5)


def test_a_newer_write_that_keeps_size_and_time(store: Store) -> None:
    """Nothing is remembered of a file: the next read has what is there now."""
    store.write(KEY, {"ptx": b"old"})
    before = store.path_of(KEY).stat()
    assert store.read(KEY)[0].sections == {"ptx": b"old"}
    store.write(KEY, {"ptx": b"new"})
    os.utime(store.path_of(KEY), ns=(before.st_atime_ns, before.st_mtime_ns))
    assert store.read(KEY)[0].sections == {"ptx": b"new"}


@pytest.mark.parametrize("schema", [0, 2, 2**32 - 1])
def test_another_schema(store: Store, trials: Trials, schema: int, monkeypatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(entry, "SCHEMA", schema)
        store.write(KEY, sections_of(KEY))
    assert trials.read(store, KEY) == "miss: schema"
    assert store.path_of(KEY).exists(), "the other version may still want it"
    store.write(KEY, sections_of(KEY))
    assert trials.read(store, KEY) == "right"
    trials.check()


def test_another_format_altogether(store: Store, trials: Trials) -> None:
    for data in (b"\x80\x04\x95", b"\x7fELF" * 40, b"{}" * 100, b"PK\x03\x04" * 40):
        store.path_of(KEY).write_bytes(data)
        assert trials.read(store, KEY) in ("miss: magic", "miss: length")
    trials.check()


# --------------------------------------------------------------------- not files


def test_a_link_in_the_place_of_an_entry(store: Store, trials: Trials, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    store.write(KEY, sections_of(KEY))
    store.path_of(KEY).rename(elsewhere)
    for target in (elsewhere, tmp_path / "nothing", Path("/etc/passwd"), store.path_of(KEY)):
        store.path_of(KEY).unlink(missing_ok=True)
        store.path_of(KEY).symlink_to(target)
        assert trials.read(store, KEY) == "miss: kind"
    assert elsewhere.exists(), "the link is put aside, not what it points to"
    trials.check()


def test_writing_replaces_a_link_and_not_its_target(store: Store, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    store.path_of(KEY).symlink_to(victim)
    store.write(KEY, sections_of(KEY))
    assert victim.read_text() == "mine"
    assert not store.path_of(KEY).is_symlink()


@needs_fork
def test_a_pipe_or_a_folder_in_the_place_of_an_entry(store: Store, trials: Trials) -> None:
    os.mkfifo(store.path_of(KEY))  # opened carelessly, it would wait for ever
    assert trials.read(store, KEY) == "miss: kind"
    store.path_of(key_of(1)).mkdir()
    assert trials.read(store, key_of(1)) == "miss: kind"
    trials.check()


# --------------------------------------------------------------------- signatures


def test_a_secret_refuses_what_is_unsigned_or_signed_by_others(store: Store) -> None:
    for writer in (None, b"another secret than ours"):
        Store(store.folder, writer).write(KEY, sections_of(KEY))
        with pytest.raises(BadEntry) as raised:
            Store(store.folder, SECRET).read(KEY)
        assert raised.value.reason is Reason.SIGNATURE
        assert store.path_of(KEY).exists(), "it is of use to others"
    Store(store.folder, SECRET).write(KEY, sections_of(KEY))
    assert Store(store.folder, SECRET).read(KEY)[0].is_signed
    assert Store(store.folder, None).read(KEY)[0].is_signed


def test_a_forged_checksum_does_not_pass_a_signature() -> None:
    data = encode(b"key", {"ptx": b"evil"}, None)
    assert decode(data, b"key").sections == {"ptx": b"evil"}
    assert reason_of(data, key=b"key", secret=SECRET) is Reason.SIGNATURE


@pytest.mark.parametrize("content", [b"", b"short", None])
def test_a_secret_that_is_none_stops_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    path = tmp_path / "secret"
    if content is not None:
        path.write_bytes(content)
        path.chmod(0o600)
    monkeypatch.setenv("KERNELDSL_CACHE_KEY_FILE", str(path))
    with pytest.warns(UserWarning, match="the key of the cache"):
        cache = DiskCache(read_settings())
    assert not cache.is_on
    assert not cache.keep(KEY, sections_of(KEY))


def test_a_secret_that_others_can_read_is_none(tmp_path, monkeypatch) -> None:
    path = tmp_path / "secret"
    path.write_bytes(SECRET)
    path.chmod(0o644)
    monkeypatch.setenv("KERNELDSL_CACHE_KEY_FILE", str(path))
    with pytest.warns(UserWarning, match="open to others"):
        assert not DiskCache(read_settings()).is_on
    path.chmod(0o600)
    assert DiskCache(read_settings()).is_on


# ------------------------------------------------------------------------ structure


def with_checksum(body: bytes) -> bytes:
    import hashlib

    body += bytes(32)
    return body + hashlib.sha256(body).digest()


@pytest.mark.parametrize(
    ("count", "key_length", "rest"),
    [
        (1, 2**40, b"key"),
        (2**31, 3, b"key"),
        (1, 3, b"key"),
        (1, 3, b"key\xff\xff\0\0\0\0\0\0\0\0"),
        (1, 3, b"key\x01\0\xff\xff\xff\xff\xff\xff\xff\x7fa"),
        (1, 3, b"key\x01\0\0\0\0\0\0\0\0\0\xff"),
        (0, 3, b"key and more"),
        (2, 0, b"\x01\0\0\0\0\0\0\0\0\0a" * 2),
    ],
)
def test_a_right_checksum_over_nonsense(count: int, key_length: int, rest: bytes) -> None:
    total = 32 + len(rest) + 64
    head = entry._HEAD.pack(MAGIC, entry.SCHEMA, count, key_length, total)
    assert reason_of(with_checksum(head + rest)) is Reason.STRUCTURE


def test_what_is_encoded_is_decoded(rng) -> None:
    for count in (0, 1, 5):
        sections = {f"s{i}é": rng.bytes(rng.integers(0, 3000)) for i in range(count)}
        for secret in (None, SECRET):
            found = decode(encode(b"the key", sections, secret), b"the key", secret)
            assert found == Entry(b"the key", sections, secret is not None)
