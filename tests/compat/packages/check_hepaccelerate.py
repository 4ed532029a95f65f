"""hepaccelerate: jagged arrays of particle physics, against the package's CPU functions."""

import numpy as np
import pytest
from numba import cuda
from support import generator, skip_init

skip_init("hepaccelerate")

from hepaccelerate import backend_cpu, backend_cuda  # noqa: E402


@pytest.fixture
def events():
    rng = generator()
    counts = rng.integers(0, 6, 500)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.uint64)
    content = rng.random(offsets[-1], dtype=np.float32) + 0.5
    rows = rng.random(500) < 0.8
    mask = rng.random(len(content)) < 0.7
    return rng, offsets, content, rows, mask


@pytest.mark.parametrize("operation", ["sum", "max", "min", "prod"])
def test_in_offsets(events, operation):
    _, offsets, content, rows, mask = events
    name = f"{operation}_in_offsets"
    ours = getattr(backend_cuda, name)(offsets, content, rows, mask)
    theirs = getattr(backend_cpu, name)(offsets, content, rows, mask)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_get_in_offsets(events):
    rng, offsets, content, rows, mask = events
    indices = rng.integers(0, 3, 500).astype(np.uint64)
    ours = backend_cuda.get_in_offsets(offsets, content, indices, rows, mask)
    theirs = backend_cpu.get_in_offsets(offsets, content, indices, rows, mask)
    np.testing.assert_allclose(ours, theirs)


def test_broadcast(events):
    rng, offsets, content, _, _ = events
    values = rng.random(500, dtype=np.float32)
    ours, theirs = np.zeros_like(content), np.zeros_like(content)
    backend_cuda.broadcast(offsets, values, ours)
    backend_cpu.broadcast(offsets, values, theirs)
    np.testing.assert_array_equal(ours, theirs)


def test_coordinates(events):
    rng = events[0]
    arrays = [rng.uniform(0.1, 2, 1000).astype(np.float32) for _ in range(4)]
    ours = backend_cuda.spherical_to_cartesian(*arrays)
    for a, b in zip(ours, backend_cpu.spherical_to_cartesian(*arrays), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5)


def test_searchsorted(events):
    rng = events[0]
    bins = np.sort(rng.random(20, dtype=np.float32))
    values = rng.uniform(-0.1, 1.1, 400).astype(np.float32)
    ours = backend_cuda.searchsorted(bins, values, side="right")
    theirs = np.searchsorted(bins, values, side="right")
    theirs[values < bins[0]] = 0
    theirs[values >= bins[-1]] = len(bins) - 1
    np.testing.assert_array_equal(ours, theirs)


def test_histogram(events):
    rng = events[0]
    data = rng.standard_normal(5000).astype(np.float32)
    weights = rng.random(5000, dtype=np.float32)
    edges = np.linspace(-3, 3, 25, dtype=np.float32)
    out = np.zeros((2, 32, 24), np.float32)
    backend_cuda.fill_histogram[32, 256](data, weights, edges, *out)
    inside = np.clip(data, edges[0], np.nextafter(edges[-1], np.float32(0)))
    kept = data >= edges[0]
    for ours, power in zip(out, (1, 2), strict=True):
        theirs, _ = np.histogram(inside[kept], edges, weights=weights[kept] ** power)
        np.testing.assert_allclose(ours.sum(0), theirs, rtol=1e-3)


def test_nearby_objects(events):
    rng, offsets = events[:2]
    n = int(offsets[-1])

    def objects():
        eta, phi = rng.uniform(-2, 2, (2, n)).astype(np.float32)
        return {"eta": eta, "phi": phi, "offsets": offsets}

    first, second = objects(), objects()
    masks = [rng.random(n) < 0.8 for _ in range(2)]
    out = []
    for backend in (backend_cuda, backend_cpu):
        found = backend.mask_deltar_first(first, masks[0], second, masks[1], 0.5)
        out.append(np.asarray(found))
    cuda.synchronize()
    np.testing.assert_array_equal(*out)
