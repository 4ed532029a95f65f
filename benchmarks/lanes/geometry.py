"""Kernels on points in space: attraction, nearest centres, rays and spheres."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numba
import numpy as np

import kerneldsl as kd
from lanes.case import Case, CompiledC, rivals_in_c

__all__ = ["SOURCE", "cases"]

#: Stored C source.
SOURCE = "geometry"
f32, i32 = np.float32, np.int32
_THREADS = 128
_BLOCK = (16, 16)
_CENTRES = 16


@kd.kernel
def attract(x, y, z, mass, ax, ay, az, softening):
    i, t = kd.grid(1), kd.threadIdx.x
    tile_x = kd.shared.array(_THREADS, f32)
    tile_y = kd.shared.array(_THREADS, f32)
    tile_z = kd.shared.array(_THREADS, f32)
    tile_mass = kd.shared.array(_THREADS, f32)
    xi, yi, zi = x[i], y[i], z[i]
    sx, sy, sz = f32(0.0), f32(0.0), f32(0.0)
    for start in range(0, x.size, _THREADS):
        tile_x[t] = x[start + t]
        tile_y[t] = y[start + t]
        tile_z[t] = z[start + t]
        tile_mass[t] = mass[start + t]
        kd.syncthreads()
        for j in range(_THREADS):
            dx, dy, dz = tile_x[j] - xi, tile_y[j] - yi, tile_z[j] - zi
            inverse = kd.rsqrt(dx * dx + dy * dy + dz * dz + softening)
            weight = tile_mass[j] * inverse * inverse * inverse
            sx += dx * weight
            sy += dy * weight
            sz += dz * weight
        kd.syncthreads()
    ax[i] = sx
    ay[i] = sy
    az[i] = sz


@numba.njit(parallel=True, error_model="numpy")
def _attract(x, y, z, mass, ax, ay, az, softening):
    for i in numba.prange(x.size):
        sx, sy, sz = f32(0.0), f32(0.0), f32(0.0)
        for j in range(x.size):
            dx, dy, dz = x[j] - x[i], y[j] - y[i], z[j] - z[i]
            inverse = f32(1.0) / math.sqrt(dx * dx + dy * dy + dz * dz + softening)
            weight = mass[j] * inverse * inverse * inverse
            sx += dx * weight
            sy += dy * weight
            sz += dz * weight
        ax[i] = sx
        ay[i] = sy
        az[i] = sz


@kd.kernel
def assign(points, centres, labels, sums, counts):
    i, t = kd.grid(1), kd.threadIdx.x
    block_sums = kd.shared.array((_CENTRES, 3), f32)
    block_counts = kd.shared.array(_CENTRES, i32)
    if t < _CENTRES:
        block_counts[t] = 0
        for axis in range(3):
            block_sums[t, axis] = 0
    kd.syncthreads()
    if i < labels.size:
        x, y, z = points[0, i], points[1, i], points[2, i]
        least = f32(math.inf)
        nearest = 0
        for k in range(_CENTRES):
            dx, dy, dz = x - centres[k, 0], y - centres[k, 1], z - centres[k, 2]
            distance = dx * dx + dy * dy + dz * dz
            if distance < least:
                least = distance
                nearest = k
        labels[i] = nearest
        kd.atomic.add(block_sums, (nearest, 0), x)
        kd.atomic.add(block_sums, (nearest, 1), y)
        kd.atomic.add(block_sums, (nearest, 2), z)
        kd.atomic.add(block_counts, nearest, 1)
    kd.syncthreads()
    if t < _CENTRES:
        kd.atomic.add(counts, t, block_counts[t])
        for axis in range(3):
            kd.atomic.add(sums, (t, axis), block_sums[t, axis])


@numba.njit(parallel=True, error_model="numpy")
def _assign(points, centres, labels, sums, counts):
    parts = numba.get_num_threads()
    part_sums = np.zeros((parts, _CENTRES, 3), f32)
    part_counts = np.zeros((parts, _CENTRES), i32)
    for part in numba.prange(parts):
        for i in range(labels.size * part // parts, labels.size * (part + 1) // parts):
            x, y, z = points[0, i], points[1, i], points[2, i]
            least = f32(math.inf)
            nearest = 0
            for k in range(_CENTRES):
                dx, dy, dz = x - centres[k, 0], y - centres[k, 1], z - centres[k, 2]
                distance = dx * dx + dy * dy + dz * dz
                if distance < least:
                    least = distance
                    nearest = k
            labels[i] = nearest
            part_sums[part, nearest, 0] += x
            part_sums[part, nearest, 1] += y
            part_sums[part, nearest, 2] += z
            part_counts[part, nearest] += 1
    sums[:] = part_sums.sum(axis=0)
    counts[:] = part_counts.sum(axis=0)


@kd.func
def brightness(column, row, width, height, spheres):
    u = (f32(column) + f32(0.5)) / f32(width) - f32(0.5)
    v = (f32(row) + f32(0.5)) / f32(height) - f32(0.5)
    dz = f32(1.0) / math.sqrt(u * u + v * v + f32(1.0))
    dx, dy = u * dz, v * dz
    nearest = f32(math.inf)
    hit = -1
    for s in range(spheres.shape[0]):
        cx, cy, cz, radius = spheres[s, 0], spheres[s, 1], spheres[s, 2], spheres[s, 3]
        b = dx * cx + dy * cy + dz * cz
        inside = b * b - (cx * cx + cy * cy + cz * cz - radius * radius)
        if inside > f32(0.0):
            at = b - math.sqrt(inside)
            if f32(0.0) < at < nearest:
                nearest = at
                hit = s
    if hit < 0:
        return f32(0.0)
    radius = spheres[hit, 3]
    nx = (nearest * dx - spheres[hit, 0]) / radius
    ny = (nearest * dy - spheres[hit, 1]) / radius
    nz = (nearest * dz - spheres[hit, 2]) / radius
    return max(f32(0.6) * nx - f32(0.48) * ny - f32(0.64) * nz, f32(0.1))


@kd.kernel
def trace(spheres, image):
    column, row = kd.grid(2)
    height, width = image.shape
    if column < width and row < height:
        image[row, column] = brightness(column, row, width, height, spheres)


_brightness = numba.njit(error_model="numpy")(brightness.function)


@numba.njit(parallel=True, error_model="numpy")
def _trace(spheres, image):
    height, width = image.shape
    for row in numba.prange(height):
        for column in range(width):
            image[row, column] = _brightness(column, row, width, height, spheres)


def cases(libraries: Mapping[str, CompiledC]) -> list[Case]:
    """Return the comparisons; `libraries` are those of the C source, by name."""
    rng = np.random.default_rng(7)
    return [
        _attract_case(rng, libraries),
        _assign_case(rng, libraries),
        _trace_case(rng, libraries),
    ]


def _attract_case(rng: np.random.Generator, libraries: Mapping[str, CompiledC]) -> Case:
    n, softening = 4096, f32(0.01)
    places = rng.standard_normal((3, n)).astype(f32)
    mass, out = rng.uniform(0.1, 1, n).astype(f32), np.empty((3, n), f32)
    arguments = (*places, mass, *out, softening)

    def attracted(places, mass):
        between = [axis - axis[:, None] for axis in places]
        weight = mass / (sum(each * each for each in between) + softening) ** 1.5
        return np.stack([(each * weight).sum(axis=1) for each in between])

    def with_numpy():
        out[:] = attracted(places, mass)

    rivals = {
        "prange": lambda: _attract(*arguments),
        "numpy": with_numpy,
        **rivals_in_c(libraries, "attract", *arguments, n),
    }
    return Case(
        "n-body f32, shared tiles, 4096",
        (out,),
        (attracted(places.astype(np.float64), mass.astype(np.float64)),),
        1e-5,
        lambda: attract[n // _THREADS, _THREADS](*arguments),
        rivals,
    )


def _assign_case(rng: np.random.Generator, libraries: Mapping[str, CompiledC]) -> Case:
    n = 1 << 18
    points = rng.standard_normal((3, n)).astype(f32)
    centres = rng.standard_normal((_CENTRES, 3)).astype(f32)
    labels, sums = np.empty(n, i32), np.empty((_CENTRES, 3), f32)
    counts = np.empty(_CENTRES, i32)
    arguments = points, centres, labels, sums, counts

    def ours():
        sums.fill(0)
        counts.fill(0)
        assign[n // _THREADS, _THREADS](*arguments)

    def assigned(points):
        distances = sum((points[k] - centres[:, k, None]) ** 2 for k in range(3))
        nearest = distances.argmin(axis=0)
        summed = [np.bincount(nearest, axis, _CENTRES) for axis in points]
        return nearest, np.stack(summed, axis=1), np.bincount(nearest, minlength=_CENTRES)

    def with_numpy():
        labels[:], sums[:], counts[:] = assigned(points)

    rivals = {
        "prange": lambda: _assign(*arguments),
        "numpy": with_numpy,
        **rivals_in_c(libraries, "assign", *arguments, n),
    }
    return Case(
        "k-means step f32, 16 centres, 2^18",
        (labels, sums, counts),
        assigned(points.astype(np.float64)),
        1e-3,
        ours,
        rivals,
        strays=1e-4,
    )


def _trace_case(rng: np.random.Generator, libraries: Mapping[str, CompiledC]) -> Case:
    size, count = 512, 64
    spheres = np.empty((count, 4), f32)
    spheres[:, :2] = rng.uniform(-3, 3, (count, 2))
    spheres[:, 2] = rng.uniform(4, 10, count)
    spheres[:, 3] = rng.uniform(0.2, 1, count)
    image = np.empty((size, size), f32)

    def traced(spheres):
        at = (np.arange(size, dtype=spheres.dtype) + spheres.dtype.type(0.5)) / size
        u, v = np.meshgrid(at - spheres.dtype.type(0.5), at - spheres.dtype.type(0.5))
        ray = np.stack([u, v, np.ones_like(u)]) / np.sqrt(u * u + v * v + 1)
        nearest, result = np.full_like(u, np.inf), np.zeros_like(u)
        for x, y, z, radius in spheres:
            b = ray[0] * x + ray[1] * y + ray[2] * z
            inside = b * b - (x * x + y * y + z * z - radius * radius)
            t = b - np.sqrt(np.maximum(inside, 0))
            hit = (inside > 0) & (t > 0) & (t < nearest)
            nx, ny, nz = (t * ray - np.array([x, y, z])[:, None, None]) / radius
            light = np.maximum(0.6 * nx - 0.48 * ny - 0.64 * nz, 0.1)
            nearest, result = np.where(hit, t, nearest), np.where(hit, light, result)
        return result

    rivals = {
        "prange": lambda: _trace(spheres, image),
        **rivals_in_c(libraries, "trace", spheres, image, count, size, size),
    }
    return Case(
        "rays and 64 spheres f32, 512^2",
        (image,),
        (traced(spheres.astype(np.float64)),),
        1e-3,
        lambda: trace[(size // _BLOCK[0], size // _BLOCK[1]), _BLOCK](spheres, image),
        rivals,
        strays=1e-3,
    )
