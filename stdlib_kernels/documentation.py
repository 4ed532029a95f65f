"""Texts that docstrings share: a table, and a decorator that inserts them.

A line of a docstring that is a name in braces is replaced by the text of the table, with the text
after a colon inserted. `{out}` becomes the description of that parameter. `{returns: array}`
becomes the title of a section and its first line. Blank lines are added before sections. If
examples import only the function, they need no name: the section begins at the first example.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

__all__ = ["documented"]

T = TypeVar("T")

#: Descriptions of parameters, and sentences, that many functions share, by name.
_WORDS = {
    "array": "{array of: bool, integer, float or complex.}",
    "real array": "{array of: bool, integer or float.}",
    "array of": """x : array
    A NumPy array, a device array, or an array of another library, such as torch or CuPy, that
    shares its memory by DLPack or ``__cuda_array_interface__``. Any rank and layout.
    {}""",
    "vector of": """x : array of shape (n,)
    A NumPy array, a device array, or an array of another library. Any layout.
    {}""",
    "sorted axis": """axis : int, optional
    The axis to sort along; with ``None`` the array is flattened in C order.
descending : bool
    Whether the largest elements are first.""",
    "joined": """out : array, optional
    Array for the result, with its shape and the kind of the arrays. Elements are converted to its
    dtype.
dtype : dtype, optional
    The dtype of the result; not with `out`.
casting : str
    The allowed conversions, as in NumPy: ``"no"``, ``"equiv"``, ``"safe"``, ``"same_kind"`` or
    ``"unsafe"``.""",
    "along": """axis : int
    The axis along which the function works.""",
    "along or flattened": """axis : int, optional
    The axis along which the function works; by default the array is flattened in C order.""",
    "mode": """mode : str
    The treatment of indices out of range: ``"raise"`` raises an error, so the host waits for the
    device; ``"wrap"`` takes the index modulo the extent; ``"clip"`` takes the first or the last
    element, and negative indices do not count from the end.""",
    "out": """out : array, optional
    Array for the result, with the result's shape and dtype and the same kind as `x`.""",
    "out and array": """{out}
{returns: array}""",
    "mask": """where : bool array, optional
    Selects elements; by default all. Same kind as `x`, and broadcast against `x`.""",
    "initial and mask": """initial : number, optional
    A value that is combined with the result at the end.
{mask}""",
    "keepdims": """keepdims : bool
    Whether the result keeps the reduced axes, with an extent of 1.""",
    "accumulating dtype": """dtype : dtype, optional
    Dtype of the computation and of the result. By default int64 for booleans and signed integers,
    uint64 for unsigned ones, and the dtype of the array for others.""",
    "operator": """op : function
    A function of two values that kernels can call: a plain function, a lambda, or a function
    decorated with `kerneldsl.func`.
    {}
    A function is compiled once. A new function with the same text is compiled again.
identity : number
    A value with which `op` does not change any other. It is combined with elements several times.
dtype : dtype, optional
    Dtype of the computation and of the result; by default that of the array.""",
    "size": """size : int or tuple of int, optional
    The shape of the result; by default one number, or the shape of `out`.""",
    "drawn parameters": """{size}
dtype : dtype, optional
    Dtype of the numbers: float64 (by default), float32, float16 or bfloat16. The last two are
    computed as float32 and rounded.
{drawn out}""",
    "drawn out": """out : array, optional
    Array for the numbers, with their shape and dtype, of any kind and layout.
{returns: device array, or NumPy scalar}""",
    "drawn": """    A device array on the generator's device, or without a `size` a NumPy scalar.
    `out` if it is given.
{raises where: a parameter is invalid for the distribution, or `out` does not fit.}""",
    "drawn raises": """{raises where: a parameter is invalid for the distribution.}""",
    "gradient": """grad : array
    The gradient with respect to the result: float32, float64, float16 or bfloat16. Any layout.""",
    "filtered": """x : array
    A NumPy array, a device array, or an array of another library, with integers or floats. Any
    layout.""",
    "origins": """origin : int or tuple of int
    Shift of the centre of the {}, for all axes or for each.""",
    "border": """mode : str
    {beyond}
{cval}""",
    "border of each axis": """mode : str or tuple of str
    {beyond}
    A tuple has a mode for each axis.
{cval}""",
    "beyond": """Values beyond the borders of the array:
``"reflect"`` (d c b a | a b c d | d c b a), ``"mirror"`` (d c b | a b c d | c b a),
``"nearest"`` (a a a | a b c d | d d d), ``"wrap"`` (b c d | a b c d | a b c) or ``"constant"``,
with `cval`; also ``"grid-mirror"``, ``"grid-wrap"`` and ``"grid-constant"``.""",
    "cval": """cval : float
    The value beyond the borders in mode ``"constant"``.""",
    "parameters of weights": """{parameters: filtered}
weights : array
    The same number of axes as `x`, one to three. They are read on the host.
{border}
{origins: weights}
{filtered result}""",
    "parameters of a line": """{parameters: filtered}
weights : array of shape (n,)
    The weights, which are read on the host.
axis : int
    The axis of the neighbours.
{border}
origin : int
    Shift of the centre of the weights.
{filtered result}""",
    "parameters of a derivative": """{parameters: filtered}
axis : int
    The axis of the derivative.
{border of each axis}
{filtered result}""",
    "parameters of a rank": """size : int or tuple of int
    Extent of the box along all axes, or along each.
{border}
{origins: box}
footprint : array, optional
    The elements of the box that count, by values that are not zero. It has as many axes as `x`,
    and replaces `size`. The host reads it.
{filtered result}

Notes
-----
If a box contains NaN, the result is undefined. For a rank in the middle, the number of operations
grows with the square of the number of elements of the box.""",
    "filtered result": """out : array, optional
    Array for the result, with the same shape, dtype and kind as `x`.

{returns: array}
    Same shape, dtype and kind as `x`; `out` if it is given. Sums of integers are float64, and are
    truncated after each axis, as in SciPy. Sums of floats have the dtype of the array; those of
    float16 and bfloat16 are float32.
{raises where: `x` is not an array of numbers, or another argument does not fit.}""",
    "raises if empty and see": """{raises}
{or value error: If the reduced axes have no elements.}
{see: {}}""",
    "raises by operator and see": """{raises}
kerneldsl.errors.KernelError
    If `op` cannot be compiled.
{see: {}}""",
    "parameters": """Parameters
----------
{{}}""",
    "returns": """Returns
-------
{}""",
    "raises": """Raises
------
kerneldsl.errors.ArgumentError
    If `x` is not an array or has another dtype, if the axis does not exist, or if another argument
    does not fit.""",
    "or value error": """kerneldsl.errors.ArgumentValueError
    {}""",
    "raises where": """Raises
------
kerneldsl.errors.ArgumentError
    If {}""",
    "warns": """Warns
-----
RuntimeWarning
    {}""",
    "see": """See Also
--------
{}""",
    "raises and see": """{raises}
{see: {}}""",
    "examples": """Examples
--------
>>> import numpy as np
>>> from stdlib_kernels.{}""",
    "": "",
    "reduction of": """{parameters: {}}
axis : int or tuple of int, optional
    The axes to reduce; by default all.
{out}
{keepdims}""",
    "parameters of a place": """{parameters: array}
axis : int, optional
    The axis to reduce; by default the array is flattened in C order.
{out}
{keepdims}""",
    "parameters of a spread": """{reduction of: array}
dtype : dtype, optional
    Dtype of the computation. By default float64 for booleans and integers, and the dtype of the
    array for others. The result has this dtype, or that of its real part.
ddof : float
    The divisor is the number of elements minus `ddof`.
correction : float, optional
    The array API's name for `ddof`.
{mask}""",
    "reduced": """{returns: NumPy scalar or array, or device array}
    Same kind as `x`; `out` if it is given.""",
    "parameters of a scan": """{parameters: array}
{along or flattened}
{out}
exclusive : bool
    Whether the result for an element does not include that element. The first result is then that
    of no elements.
reverse : bool
    Whether to go from the last element to the first.""",
    "scanned": """{returns: array}
    Same kind and shape as `x`, or shape ``(x.size,)`` without an axis. `out` if it is given.""",
    "parameters of rows": """{parameters: real array}
axis : int
    The axis of the elements of a row.
out : array, optional
    Array for the result, with the same shape and kind as `x` and the result's dtype. It may be
    `x`.""",
    "weight": """weight : array of shape (n,), optional
    Factors of the n elements along the axis; by default ones. Same kind as `x`.""",
    "rows": """{returns: array}
    Same shape and kind as `x`. float64 for booleans and integers, else the dtype of `x`. float16
    and bfloat16 are computed as float32. `out` if it is given.""",
    "parameters of a gradient": """{parameters: gradient}
{} : array
    Same shape, dtype and kind as `grad`: x is the input, and y the result.
axis : int
    The axis of the call.""",
    "parameters of a norm's gradient": """{parameters of a gradient: x}
weight : array of shape (n,), optional
    The weights of the call; ones by default.
eps : float, optional
    The `eps` of the call, with the same default.""",
    "scores and labels": """x : array
    The scores of the classes: booleans, integers or floats. Any layout.
labels : array
    The index of the correct class in each row: integers, with the shape of `x` without the axis.
    Same kind as `x`.
axis : int
    The axis of the classes.
ignore_index : int
    Rows with this label are ignored: their loss is 0.""",
    "like x": """{returns: array}
    Same kind and dtype as `x`{}.""",
    "grey image": """image : array of shape (h, w)
    uint8, float32 or float64. Any layout.""",
    "grey out": """out : array of shape (h, w), optional
    Array for the result, with the result's dtype and the same kind as `image`.""",
    "grey raises": """{raises where: `image` is not a grey image, or `out` does not fit.}""",
    "seed and device": """seed : int{}, optional
    The key, with 64 bits. Other seeds give independent numbers. The default is a random seed.
device : device, optional
    Device of the results; by default the current one at each call.""",
    "places along": """{parameters: array}
indices : array
    Integers, not uint64, with the shape of `x` except for the axis. Same kind as `x`.""",
    "gradient raises": """{raises where: the arrays do not fit, or the axis does not exist.}""",
}


def documented(public: T) -> T:
    """Insert the shared texts into the docstring of a function or class; a decorator."""
    of: Any = public
    source = f"{of.__module__.split('.')[1]} import {of.__name__}"
    lines = list(_filled(_with_examples(of.__doc__ or ""), source))
    for at in range(len(lines) - 1, 0, -1):
        is_title = lines[at].endswith("---") and set(lines[at].strip()) == {"-"}
        if is_title and lines[at - 2].strip():
            lines.insert(at - 1, "")
    of.__doc__ = "\n".join(lines) or None
    return public


def _with_examples(text: str) -> str:
    """Return a text with ``{examples}`` before the first example, if it has no title."""
    before, prompt, behind = text.partition(">>>")
    if not prompt or "{examples: " in before or "Examples\n" in before:
        return text
    margin = before.rpartition("\n")[2]
    return f"{before}{{examples}}\n{margin}{prompt}{behind}"


def _filled(text: str, source: str) -> Iterator[str]:
    """Return the lines of a text; `source` is the import of its examples."""
    for line in text.splitlines():
        word = line.strip()
        if not (word.startswith("{") and word.endswith("}")):
            yield line
            continue
        name, _, given = word[1:-1].partition(": ")
        if name == "examples":
            given = given or source
        margin = line[: len(line) - len(line.lstrip())]
        for each in _filled(_WORDS[name].replace("{}", given), source):
            yield (margin + each).rstrip()
