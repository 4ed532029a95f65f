"""Library kernels, written in the language of :mod:`kerneldsl`, for every target.

=================================  =================================================================
:mod:`stdlib_kernels.elementwise`  any function of numbers over arrays, choices, bounds, conversions
:mod:`stdlib_kernels.compact`      elements and places by a condition, runs, distinct elements
:mod:`stdlib_kernels.histogram`    counts of integers, and between edges along one axis or two
:mod:`stdlib_kernels.imaging`      grey conversion, Gaussian blur, Sobel, histogram, equalization
:mod:`stdlib_kernels.reduce`       sums, extremes, moments, norms and their places, over any axes
:mod:`stdlib_kernels.scan`         cumulative sums, products, extremes, and any operation's scan
:mod:`stdlib_kernels.sort`         sorts, the places that sort, top elements, searches, merges
:mod:`stdlib_kernels.movement`     axes in another order, elements by their places, copies, borders
:mod:`stdlib_kernels.rows`         softmax, layer and root mean square normalization, along an axis
:mod:`stdlib_kernels.linalg`       transpose, products of vectors and matrices
:mod:`stdlib_kernels.quantized`    products with weights of 2, 4 and 8 bits, their formats, GGUF
:mod:`stdlib_kernels.stencil`      convolution, Gaussian and other filters of neighbours
:mod:`stdlib_kernels.random`       arrays of random numbers, of a seed and a counter
:mod:`stdlib_kernels.array_api`    the namespace of the array API standard, for device arrays
=================================  =================================================================

Functions are here under their names, too: ``import stdlib_kernels as sk; sk.sum(x)``. A family is
imported when the first of its names is used, so importing this package costs almost nothing.

In the documentation of functions, an *array* is a NumPy array, a device array, or one of another
library, such as torch or CuPy. Arrays of other libraries share their memory by DLPack or
``__cuda_array_interface__``.
"""

#: Families, with the names that are here, too. Of a name that two families have it is the first's;
#: imaging's own `histogram` and `sobel`, and quantized's `matmul`, are in that family alone.
_FAMILIES = {
    "elementwise": "astype clip map where",
    "reduce": "all any argmax argmin count_nonzero max mean min norm prod reduce std sum var",
    "scan": "cummax cummin cumprod cumsum scan",
    "histogram": "bincount histogram histogram2d",
    "compact": "compress flatnonzero nonzero partition run_length unique",
    "sort": "argsort merge searchsorted sort sort_pairs top_k",
    "movement": (
        "concatenate flip pad permute put_along_axis repeat roll stack take take_along_axis tile"
    ),
    "rows": (
        "cross_entropy cross_entropy_backward layer_norm layer_norm_backward log_softmax "
        "log_softmax_backward rms_norm rms_norm_backward softmax softmax_backward"
    ),
    "linalg": "attention attention_backward dot matmul transpose",
    "quantized": "dequantize pack quantize read_gguf unpack",
    "stencil": (
        "convolve convolve1d correlate correlate1d gaussian_filter laplace maximum_filter "
        "median_filter minimum_filter percentile_filter prewitt rank_filter sobel uniform_filter"
    ),
    "random": "Generator State default_rng",
    "imaging": "equalize gaussian_blur grey",
}
#: The namespace of device arrays. Its names are not here.
_NAMESPACE = "array_api"
#: Replacements for functions of NumPy that the library lacks, or has by another name.
_INSTEAD = {
    "amax": "max(x)",
    "amin": "min(x)",
    "argpartition": "top_k(x, k), which returns the elements and their indices",
    "digitize": "searchsorted(bins, x, side='right')",
    "flatten": "x.reshape(-1)",
    "hstack": "concatenate(arrays, axis=1), or axis=0 for vectors",
    "median": "sort(x), and take the middle",
    "nanmax": "max(x, where=x == x, initial=-math.inf)",
    "nanmean": "mean(x, where=x == x)",
    "nanmin": "min(x, where=x == x, initial=math.inf)",
    "nansum": "sum(x, where=x == x)",
    "outer": "x[:, None] * y",
    "percentile": "sort(x), and take elements by their places",
    "quantile": "sort(x), and take elements by their places",
    "ravel": "x.reshape(-1)",
    "swapaxes": "permute(x, axes)",
    "vstack": "concatenate(arrays), of matrices",
}
_HOME = {name: family for family, names in _FAMILIES.items() for name in names.split()}

# A test holds that these are the families' own `__all__`.
__all__ = sorted({*_HOME, *_FAMILIES})


def __getattr__(name: str) -> object:
    from importlib import import_module
    from importlib.util import find_spec

    if name not in _HOME and name not in _FAMILIES and name != _NAMESPACE:
        said = f"module {__name__!r} has no attribute {name!r}"
        # `from stdlib_kernels import arrays` reads the attribute first, then imports the module.
        if not name.startswith("_") and find_spec(f"{__name__}.{name}") is None:
            from difflib import get_close_matches

            near = [each for each in __all__ if each.startswith(f"{name}_")]
            near = near or get_close_matches(name, __all__, 1, 0.65)
            if name in _INSTEAD:
                said += f". Write {_INSTEAD[name]}"
            # NumPy has all names of the namespace, and is imported faster.
            elif hasattr(import_module("numpy"), name) and hasattr(
                import_module(f"{__name__}.{_NAMESPACE}"), name
            ):
                said += f". Write {__name__}.{_NAMESPACE}.{name}"
            else:
                said += f". Did you mean {near[0]!r}?" if near else ". Its names are in __all__"
        # The error names no object, so that Python does not suggest a name a second time.
        raise AttributeError(said, name=name, obj=None)
    from kerneldsl.utilities.locks import no_fork

    with no_fork:  # a child would wait for the import for ever
        # A family with a function of the same name can be called as that function.
        home = _HOME.get(name) if name not in _FAMILIES else None
        found = import_module(f"{__name__}.{home or name}")
        value = globals()[name] = getattr(found, name) if home else found
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
