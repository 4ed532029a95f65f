"""Kernels of published packages, with their texts unchanged, and arguments for them.

A kernel is taken from the installed package when the benchmark runs; none of its text is here.
"""

from __future__ import annotations

import importlib
import importlib.util
import operator
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.compat.packages.support import skip_init, stand_in

__all__ = ["KERNELS", "PackageKernel", "load"]

#: What a launch gets: arguments, grid and block.
Launch = tuple[list[Any], tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class PackageKernel:
    """One kernel.

    Parameters
    ----------
    path : str
        ``package.module:name``; a factory's kernel is named by ``path(shape)``.
    arguments : callable
        Takes a generator and a size, and returns arguments, grid and block.
    sizes : tuple of int
        On a GPU, on a CPU, and for the simulator.
    tolerance : float
        Of results, relative to the largest of an array.
    factory : bool
        Whether the name is that of a function that makes the kernel for the shape of the arguments.
    unordered : bool
        Whether the threads put their results into an order that differs from launch to launch.
    """

    path: str
    arguments: Callable[[np.random.Generator, int], Launch]
    sizes: tuple[int, int, int]
    tolerance: float = 1e-4
    factory: bool = False
    unordered: bool = False

    @property
    def name(self) -> str:
        module, _, name = self.path.partition(":")
        return f"{module.partition('.')[0]} {name}"


def load(kernel: PackageKernel) -> Any:
    """Import the kernel's module without the ``__init__`` of its packages, and return the kernel.

    The kernel is numba.cuda's, whatever that is now.
    """
    path, _, name = kernel.path.partition(":")
    parts = path.split(".")
    for count in range(1, len(parts)):
        package = ".".join(parts[:count])
        if package not in sys.modules:
            skip_init(package)
    if "sgkit.typing" not in sys.modules:
        stand_in("sgkit.typing", ArrayLike=object)  # for annotations; the package's imports Dask
    if importlib.util.find_spec("scipy") is None:
        stand_in("scipy")
        stand_in(
            "scipy.constants",
            **{"c": 299792458.0, "e": 1.602176634e-19, "m_e": 9.1093837139e-31},
            **{"epsilon_0": 8.8541878188e-12, "mu_0": 1.25663706127e-06},
        )
    return operator.attrgetter(name)(importlib.import_module(path))


def _blocks(extents: tuple[int, ...], block: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(-(-n // b) for n, b in zip(extents, block, strict=True))


def _normal(rng: np.random.Generator, *shape: int) -> Any:
    return rng.standard_normal(shape)


def _complex(rng: np.random.Generator, *shape: int) -> Any:
    return _normal(rng, *shape) + 1j * _normal(rng, *shape)


def _single(rng: np.random.Generator, *shape: int) -> Any:
    return rng.random(shape, dtype=np.float32)


def _push_p(rng: np.random.Generator, n: int) -> Launch:
    u = _normal(rng, 3, n)
    gamma = 1 / np.sqrt(1 + (u**2).sum(0))
    fields = *(1e9 * _normal(rng, 3, n)), *_normal(rng, 3, n)
    return [*u, gamma, *fields, -1.6e-19, 9.1e-31, n, 1e-15], (-(-n // 256),), (256,)


def _push_x(rng: np.random.Generator, n: int) -> Launch:
    return [*_normal(rng, 7, n), 1e-15, 1.0, 0.5, 1.0], (-(-n // 256),), (256,)


def _push_s(rng: np.random.Generator, n: int) -> Launch:
    fields = *(1e9 * _normal(rng, 3, n)), *_normal(rng, 3, n)
    rest = -1.6e-19, 9.1e-31, n, 1e-15, 1e-3
    return [*_normal(rng, 9, n), *fields, *rest], (-(-n // 256),), (256,)


def _push_eb(rng: np.random.Generator, n: int) -> Launch:
    grids = [_complex(rng, n, n) for _ in range(11)]
    coefficients = [0.1 * _normal(rng, n, n) for _ in range(7)]
    return [*grids, *coefficients, 1e-15, True, n, n], (n, -(-n // 128)), (1, 128)


def _gather(rng: np.random.Generator, n: int) -> Launch:
    nz, nr = 500, 100
    grids = [_complex(rng, nz, nr) for _ in range(12)]
    x, y = rng.uniform(-60, 60, (2, n))
    z = np.sort(rng.uniform(0.5, nz - 1.5, n))
    geometry = 95.0, 1.0, 0.0, nz, 1.0, 0.5, nr
    return [x, y, z, *geometry, *grids, *_normal(rng, 6, n)], (-(-n // 256),), (256,)


def _filter(rng: np.random.Generator, n: int) -> Launch:
    return [_complex(rng, n, n), n, n, *rng.random((2, n))], (n, -(-n // 128)), (1, 128)


def _convolve(rng: np.random.Generator, n: int) -> Launch:
    filters = rng.standard_normal((4, 4, 11, 11)).astype(np.float32)
    x, y = _single(rng, 2, n, n)
    step = max(1, n // 5)
    rest = filters, (11, 11), (n, n), step, step, step, step, 4, 4, True
    return [x, y, *rest], _blocks((n, n), (16, 16)), (16, 16)


def _radon(rng: np.random.Generator, n: int, into_model: bool) -> Launch:
    slopes, offsets, frequencies = 64, 64, n
    x, y = (_complex(rng, 64, n).astype(np.complex64) for _ in range(2))
    f = np.linspace(0, 60, n, dtype=np.float32)
    p = np.linspace(-1e-3, 1e-3, slopes, dtype=np.float32)
    h = np.linspace(0, 500, offsets, dtype=np.float32)
    rest = x, y, f, p, h, 0, frequencies - 1, slopes, offsets
    return list(rest), _blocks((64, n), (4, 64)), (4, 64)


def _boxes(rng: np.random.Generator, n: int) -> Launch:
    boxes = rng.uniform([0, 0, 1, 1, -3], [20, 20, 5, 5, 3], (2, n, 5)).astype(np.float32)
    arguments = [n, n, boxes[0].ravel(), boxes[1].ravel(), np.zeros(n * n, np.float32), -1]
    return arguments, (-(-n // 64), -(-n // 64)), (64,)


def _distance(rng: np.random.Generator, n: int, parameters: int) -> Launch:
    first, second = _single(rng, 2, n, 100)
    out = np.zeros((n, n, parameters), np.float32)
    return [first, second, out], _blocks((n, n), (16, 16)), (16, 16)


def _templates(rng: np.random.Generator, n: int) -> Launch:
    image = _single(rng, 360, 128)
    spots = rng.integers(1, 128, (n, 64)), rng.integers(0, 360, (n, 64)), _single(rng, n, 64)
    return [image, *spots, *np.zeros((2, n, 360), np.float32)], (n, 2), (1, 256)


def _jagged(rng: np.random.Generator, n: int) -> Launch:
    offsets = np.concatenate([[0], np.cumsum(rng.integers(0, 8, n))])
    content = _single(rng, offsets[-1])
    masks = rng.random(n) < 0.8, rng.random(len(content)) < 0.8
    return [offsets, content, *masks, np.zeros(n, np.float32)], (-(-n // 256),), (256,)


def _coordinates(rng: np.random.Generator, n: int) -> Launch:
    given = rng.uniform(0.1, 2, (4, n)).astype(np.float32)
    return [*given, *np.zeros((4, n), np.float32)], (-(-n // 256),), (256,)


def _search(rng: np.random.Generator, n: int) -> Launch:
    edges = np.sort(_single(rng, 200))
    return [_single(rng, n), edges, np.zeros(n, np.int32)], (-(-n // 256),), (256,)


def _histogram(rng: np.random.Generator, n: int) -> Launch:
    blocks = min(256, -(-n // 256))
    edges = np.linspace(0, 1, 65, dtype=np.float32)
    out = np.zeros((2, blocks, 64), np.float32)
    return [_single(rng, n), _single(rng, n), edges, *out], (blocks,), (256,)


def _project(rng: np.random.Generator, n: int) -> Launch:
    x, y = rng.random((2, n))
    lengths = rng.uniform(0.002, 0.01, n).astype(np.float32)
    image = np.zeros((512, 512), np.float32)
    return [x, y, _single(rng, n), lengths, 0.0, 0.0, image], (-(-n // 16), 1, 1), (16, 1, 1)


def _radial(rng: np.random.Generator, n: int) -> Launch:
    sampling = np.array([0.1, 0.12])
    positions = rng.uniform(0, 50, (n, 2))
    points = np.geomspace(0.02, 2.0, 64)
    functions = rng.random((n, 64))
    slopes = np.diff(functions, axis=1) / np.diff(points)
    reach = np.arange(-16, 17)
    disk = np.stack(np.meshgrid(reach, reach, indexing="ij"), -1).reshape(-1, 2)
    counts = rng.integers(len(disk) // 2, len(disk), n)
    dt = float(np.log(points[1] / points[0]))
    rest = positions, disk, counts, sampling, points, functions, slopes, dt
    return [np.zeros((512, 512)), *rest], (n, -(-len(disk) // 256)), (1, 256)


def _crop(rng: np.random.Generator, n: int) -> Launch:
    images = _complex(rng, n, 128, 128).astype(np.complex64)
    corners = rng.integers(0, 64, (n, 2))
    out = np.zeros((n, 64, 64), np.complex64)
    return [out, images, corners], _blocks((n, 64, 64), (1, 16, 16)), (1, 16, 16)


def _colors(rng: np.random.Generator, n: int) -> Launch:
    picture = rng.integers(0, 256, (n, n, 3), dtype=np.uint8)
    found = [np.zeros(n * n, np.int64) for _ in range(2)]
    colors = rng.integers(0, 256, (8, 3))
    return (
        [picture, colors, *found, np.zeros(1, np.int64)],
        (*_blocks((n, n), (8, 8)), 1),
        (8, 8, 1),
    )


def _prefix(rng: np.random.Generator, n: int) -> Launch:
    values = rng.integers(0, 3, n).astype(np.int32)
    blocks = -(-n // 512)
    return [values, np.zeros(n, np.int32), np.zeros(blocks, np.int32), 1, n, 0], (blocks,), (512,)


def _lines(rng: np.random.Generator, n: int) -> Launch:
    arguments = [*_single(rng, 2, n * n), 7, n, 1, n, n]  # along columns
    return arguments, (-(-n // 128),), (128,)


def _cross_section(rng: np.random.Generator, n: int) -> Launch:
    lmax, channels = 3, 8
    orders = 2 * lmax * (lmax + 2)
    per = np.array(
        [(t, j, m) for t in (1, 2) for j in range(1, lmax + 1) for m in range(-j, j + 1)]
    )
    idx = np.array([(s, i, *per[i]) for s in range(n) for i in range(orders)])
    tables = (
        _complex(rng, n, orders, channels),
        _complex(rng, orders, orders, 2 * lmax + 1),
        _normal(rng, (lmax + 1) * (2 * lmax + 1), n, n),
        _complex(rng, 2 * lmax + 1, n, n, channels),
        _complex(rng, 4 * lmax + 1, n, n),
    )
    jmax, block = n * orders, (8, 8, 4)
    arguments = [lmax, n, idx, *tables, *np.zeros((2, channels))]
    return arguments, _blocks((jmax, jmax, channels), block), block


def _weighted(rng: np.random.Generator, n: int) -> Launch:
    arrays = [rng.standard_normal((n, n, n, 8)).astype(np.float32) for _ in range(3)]
    return arrays, (n // 4 + 1,) * 3, (4, 4, 4)


def _interpolate(rng: np.random.Generator, n: int) -> Launch:
    points, values = np.sort(rng.random(100)), rng.random(100)
    arguments = [rng.uniform(-0.1, 1.1, (n, n)), points, values, 0.0, 1.0, np.zeros((n, n))]
    return arguments, _blocks((n, n), (16, 16)), (16, 16)


def _nanmax(rng: np.random.Generator, n: int) -> Launch:
    arrays = -np.sort(-rng.random((2, n, n, 5)), axis=-1)
    return list(arrays), _blocks((n, n), (16, 16)), (16, 16)


_PUSH = "fbpic.particles.push.cuda_methods"
_HEP = "hepaccelerate.backend_cuda"
_SHADER = "datashader.transfer_functions._cuda_utils"
KERNELS = (
    PackageKernel(f"{_PUSH}:push_p_gpu", _push_p, (1_000_000, 200_000, 256), 1e-9),
    PackageKernel(f"{_PUSH}:push_x_gpu", _push_x, (2_000_000, 200_000, 256), 1e-9),
    PackageKernel(
        "fbpic.fields.cuda_methods:cuda_push_eb_standard", _push_eb, (800, 200, 16), 1e-9
    ),
    PackageKernel("fbpic.fields.cuda_methods:cuda_filter_scalar", _filter, (2000, 400, 16), 1e-9),
    PackageKernel(
        "fbpic.particles.gathering.cuda_methods:gather_field_gpu_linear",
        _gather,
        (500_000, 50_000, 256),
        1e-9,
    ),
    PackageKernel(
        "pylops.signalprocessing._nonstatconvolve2d_cuda:_matvec_rmatvec",
        _convolve,
        (800, 150, 16),
    ),
    PackageKernel(
        "pylops.signalprocessing._fourierradon2d_cuda:_radon_inner_2d_kernel",
        lambda rng, n: _radon(rng, n, False),
        (8000, 500, 64),
        1e-3,
    ),
    PackageKernel(
        "pylops.signalprocessing._fourierradon2d_cuda:_aradon_inner_2d_kernel",
        lambda rng, n: _radon(rng, n, True),
        (8000, 500, 64),
        1e-3,
    ),
    PackageKernel(
        "mmdet3d.evaluation.functional.kitti_utils.rotate_iou:rotate_iou_kernel_eval",
        _boxes,
        (1500, 200, 16),
        2e-2,
    ),
    PackageKernel(
        "sgkit.distance.metrics:euclidean_map_kernel",
        lambda rng, n: _distance(rng, n, 1),
        (2000, 200, 16),
    ),
    PackageKernel(
        "sgkit.distance.metrics:correlation_map_kernel",
        lambda rng, n: _distance(rng, n, 6),
        (2000, 200, 16),
    ),
    PackageKernel(
        "pyxem.utils.cuda_utils:_correlate_polar_image_to_library_gpu", _templates, (1500, 50, 1)
    ),
    PackageKernel(f"{_HEP}:sum_in_offsets_cudakernel", _jagged, (1_000_000, 100_000, 256)),
    PackageKernel(f"{_HEP}:spherical_to_cartesian_kernel", _coordinates, (4_000_000, 200_000, 256)),
    PackageKernel(f"{_HEP}:searchsorted_kernel_right", _search, (4_000_000, 200_000, 256)),
    PackageKernel(f"{_HEP}:fill_histogram", _histogram, (4_000_000, 200_000, 256), 1e-3),
    PackageKernel(
        "swiftsimio.visualisation.projection_backends.gpu:scatter_gpu",
        _project,
        (300_000, 20_000, 32),
        1e-3,
    ),
    PackageKernel("abtem.core._cuda:_interpolate_radial_functions", _radial, (5000, 500, 1), 1e-9),
    PackageKernel("abtem.core._cuda:_batch_crop_2d", _crop, (1500, 100, 1)),
    PackageKernel(
        "locate_pixelcolor_numbacuda:find_rgb_value", _colors, (2000, 500, 16), unordered=True
    ),
    PackageKernel(
        "pyrebel.getnonzeros:prefix_sum_nzmask_block", _prefix, (8_000_000, 200_000, 512)
    ),
    PackageKernel(
        "aydin.util.fast_uniform_filter.numba_gpu_uf:gpu_line_filter_2d", _lines, (2000, 500, 16)
    ),
    PackageKernel(
        "yasfpy.functions.cuda_numba:compute_scattering_cross_section_gpu",
        _cross_section,
        (30, 8, 1),
        1e-9,
    ),
    PackageKernel(
        "mumott.core.cuda_kernels:cuda_weighted_difference", _weighted, (96, 24, 3), factory=True
    ),
    PackageKernel(f"{_SHADER}:interp2d_kernel", _interpolate, (2000, 400, 16)),
    PackageKernel(f"{_SHADER}:cuda_nanmax_n_in_place_3d", _nanmax, (1000, 200, 16)),
)
