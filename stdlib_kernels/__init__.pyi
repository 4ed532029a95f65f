"""Written by docs/library_stubs.py."""

from stdlib_kernels import (
    array_api as array_api,
    compact as compact,
    elementwise as elementwise,
    imaging as imaging,
    linalg as linalg,
    movement as movement,
    quantized as quantized,
    random as random,
    rows as rows,
    stencil as stencil,
)
from stdlib_kernels.histogram import _Family as _histogram
from stdlib_kernels.reduce import _Family as _reduce
from stdlib_kernels.scan import _Family as _scan
from stdlib_kernels.sort import _Family as _sort
from stdlib_kernels.compact import (
    compress as compress,
    flatnonzero as flatnonzero,
    nonzero as nonzero,
    partition as partition,
    run_length as run_length,
    unique as unique,
)
from stdlib_kernels.elementwise import (
    astype as astype,
    clip as clip,
    map as map,
    where as where,
)
from stdlib_kernels.histogram import (
    bincount as bincount,
    histogram2d as histogram2d,
)
from stdlib_kernels.imaging import (
    equalize as equalize,
    gaussian_blur as gaussian_blur,
    grey as grey,
)
from stdlib_kernels.linalg import (
    attention as attention,
    attention_backward as attention_backward,
    dot as dot,
    matmul as matmul,
    transpose as transpose,
)
from stdlib_kernels.movement import (
    concatenate as concatenate,
    flip as flip,
    pad as pad,
    permute as permute,
    put_along_axis as put_along_axis,
    repeat as repeat,
    roll as roll,
    stack as stack,
    take as take,
    take_along_axis as take_along_axis,
    tile as tile,
)
from stdlib_kernels.quantized import (
    dequantize as dequantize,
    pack as pack,
    quantize as quantize,
    read_gguf as read_gguf,
    unpack as unpack,
)
from stdlib_kernels.random import (
    Generator as Generator,
    State as State,
    default_rng as default_rng,
)
from stdlib_kernels.reduce import (
    all as all,
    any as any,
    argmax as argmax,
    argmin as argmin,
    count_nonzero as count_nonzero,
    max as max,
    mean as mean,
    min as min,
    norm as norm,
    prod as prod,
    std as std,
    sum as sum,
    var as var,
)
from stdlib_kernels.rows import (
    cross_entropy as cross_entropy,
    cross_entropy_backward as cross_entropy_backward,
    layer_norm as layer_norm,
    layer_norm_backward as layer_norm_backward,
    log_softmax as log_softmax,
    log_softmax_backward as log_softmax_backward,
    rms_norm as rms_norm,
    rms_norm_backward as rms_norm_backward,
    softmax as softmax,
    softmax_backward as softmax_backward,
)
from stdlib_kernels.scan import (
    cummax as cummax,
    cummin as cummin,
    cumprod as cumprod,
    cumsum as cumsum,
)
from stdlib_kernels.sort import (
    argsort as argsort,
    merge as merge,
    searchsorted as searchsorted,
    sort_pairs as sort_pairs,
    top_k as top_k,
)
from stdlib_kernels.stencil import (
    convolve as convolve,
    convolve1d as convolve1d,
    correlate as correlate,
    correlate1d as correlate1d,
    gaussian_filter as gaussian_filter,
    laplace as laplace,
    maximum_filter as maximum_filter,
    median_filter as median_filter,
    minimum_filter as minimum_filter,
    percentile_filter as percentile_filter,
    prewitt as prewitt,
    rank_filter as rank_filter,
    sobel as sobel,
    uniform_filter as uniform_filter,
)

__all__: list[str]
histogram: _histogram
reduce: _reduce
scan: _scan
sort: _sort
