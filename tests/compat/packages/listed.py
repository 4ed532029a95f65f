"""The published packages that run under the drop-in, and what runs of each."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PACKAGES", "SHARED", "Package"]


@dataclass(frozen=True)
class Package:
    """One package.

    Parameters
    ----------
    name, version : str
        Of the distribution in the package index, or of the checkout.
    what : str
        What runs.
    reference : str
        What the results are compared with.
    own : tuple of str
        Arguments of pytest for the package's own tests; without, the program of this folder runs.
    checkout : str
        ``address@commit`` of a checkout, if the distribution has no tests. The package of the
        checkout runs, and not the distribution.
    patched : str
        What stands in for what the package imports, or is not as the package does it.
    with_cupy : bool
        Whether NumPy stands in for CuPy.
    needs : tuple of str
        Further distributions, installed beside the package without what they require.
    """

    name: str
    version: str
    what: str
    reference: str
    own: tuple[str, ...] = ()
    checkout: str = ""
    patched: str = ""
    with_cupy: bool = False
    needs: tuple[str, ...] = ()

    @property
    def program(self) -> str:
        """The file of this folder, or an empty string if the package's own tests run."""
        return "" if self.own else f"check_{self.name.replace('-', '_')}.py"


#: What the packages require, installed once. Each package is installed without what it requires.
SHARED = (
    "numba",
    "scipy",
    "pandas",
    "xarray",
    "dask[array,dataframe,distributed]",
    "matplotlib",
    "h5py",
    "astropy",
    "pytest",
    "tqdm",
    "toolz",
    "param",
    "pyct",
    "colorcet",
    "multipledispatch",
    "pillow",
    "networkx",
    "requests",
    "unyt",
    "PyWavelets",
    "scikit-image",
    "scikit-learn",
    "rich",
    "joblib",
    "pyfftw",
    "polars",
    "hypothesis",
    "colorspacious",
)

_INIT = "the package's `__init__`, which imports more, does not run"

PACKAGES = (
    Package(
        "stumpy",
        "1.13.0+60283ff6",
        "its GPU tests",
        "its naive implementations",
        own=("-k", "gpu", "tests"),
        checkout="https://github.com/stumpy-dev/stumpy@60283ff60ecc0ed8ac0a98fab2aa4b06e3eb1987",
        patched="with pandas 2, as it writes into arrays that pandas 3 protects",
        needs=("pandas==2.3.3", "pytz==2026.6"),
    ),
    Package(
        "disimpy",
        "0.3.0",
        "its tests",
        "NumPy, statistics and stored values",
        own=("-p", "removed_names", "--pyargs", "disimpy.tests"),
        patched="names that NumPy 2.4 removed (trapz, product) are there",
    ),
    Package(
        "gamdpy",
        "0.8.2.dev+47dd2021",
        "its tests that it does not mark as slow or experimental",
        "physics, stored values and NumPy",
        own=("-o", "addopts=", "-m", "not (slow or experimental or gamdpy_cpu)", "tests"),
        checkout="https://github.com/ThomasBechSchroeder/gamdpy@47dd20215288a64c0cfebe820e13ffddfd64e3d4",
    ),
    Package("pylops", "2.8.0", "five operators", "its Numba engines", with_cupy=True),
    Package(
        "fbpic",
        "0.27.1",
        "eight kernels",
        "its CPU functions",
        with_cupy=True,
        patched="`cuda.jit` launches the kernels, not CuPy",
    ),
    Package(
        "xarray-spatial",
        "0.5.3",
        "eleven functions with kernels",
        "its CPU functions",
        with_cupy=True,
        needs=("datashader==0.19.1",),
    ),
    Package("datashader", "0.19.1", "eleven kernels", "its CPU functions", with_cupy=True),
    Package(
        "mumott",
        "2.3",
        "projectors and six kernels",
        "its CPU projector, NumPy",
        needs=("matplotlib==3.10.8",),
    ),
    Package("algotom", "1.7.0", "reconstruction and correlation", "its CPU functions"),
    Package("swiftsimio", "9.0.2", "projection of particles", "its CPU back end", patched=_INIT),
    Package("your", "0.6.7", "dedispersion", "NumPy", patched=_INIT),
    Package("sgkit", "0.10.0", "distances", "SciPy", patched=_INIT),
    Package("yasfpy", "0.0.13", "two kernels", "its CPU functions", patched=_INIT),
    Package(
        "hepaccelerate", "0.2.3", "its back end", "its CPU back end", with_cupy=True, patched=_INIT
    ),
    Package("aydin", "0.1.15", "uniform filters", "SciPy", patched=_INIT),
    Package("abtem", "1.0.11", "three kernels", "NumPy", with_cupy=True, patched=_INIT),
    Package("pyxem", "0.21.0", "correlation of templates", "NumPy", patched=_INIT),
    Package("frbb", "1.0.0", "its classifier", "its NumPy and Numba modes"),
    Package("pyrebel", "1.2.9", "prefix sums", "NumPy"),
    Package("mmdet3d", "1.4.0", "overlaps of rotated boxes", "polygons in NumPy", patched=_INIT),
    Package(
        "warprnnt-numba",
        "0.4.1",
        "costs and gradients of a transducer",
        "its NumPy functions",
        patched=f"{_INIT}; classes of PyTorch are empty ones",
    ),
    Package("locate-pixelcolor-numbacuda", "0.12", "search of colors", "NumPy"),
)
