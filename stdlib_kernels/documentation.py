"""The words that docstrings share: each is said here once, and filled in where a function has it.

A line of a docstring that is a word in braces is replaced by what the table has for it; what stands
behind a colon is put in there: `{out}` becomes the description of that parameter, and
`{returns: array}` the title of a section and its first line. Blank lines come before sections.
Examples need no word where they import the function alone: the section begins at the first of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

__all__ = ["documented"]

T = TypeVar("T")

#: What stands in docstrings for a parameter, or a sentence, that many functions share.
_WORDS = {
    "array": "{array of: bool, integer, float or complex.}",
    "real array": "{array of: bool, integer or float.}",
    "array of": """x : array
    NumPy's, a device array, or one of another library, such as torch or CuPy, that shares its
    memory by DLPack or ``__cuda_array_interface__``; of any rank and layout.
    {}""",
    "vector of": """x : array of shape (n,)
    NumPy's, a device array, or one of another library; of any layout.
    {}""",
    "sorted axis": """axis : int, optional
    Along which; ``None`` takes the array as flattened in C order.
descending : bool
    Whether the largest come first.""",
    "along": """axis : int
    Along which.""",
    "along or flattened": """axis : int, optional
    Along which; by default the array is taken as flattened in C order.""",
    "mode": """mode : str
    What an index out of range means: ``"raise"`` refuses it, for which the host waits for the
    device; ``"wrap"`` counts from the other end again; ``"clip"`` takes the first or the last one,
    and none counts from the end.""",
    "out": """out : array, optional
    Where the result goes, of the result's shape and dtype and of `x`'s kind.""",
    "out and array": """{out}
{returns: array}""",
    "mask": """where : bool array, optional
    Which elements count: of `x`'s kind, and broadcast against `x`; all by default.""",
    "initial and mask": """initial : number, optional
    What the result is combined with, at last.
{mask}""",
    "keepdims": """keepdims : bool
    Whether the result keeps the axes that are reduced, with an extent of 1.""",
    "accumulating dtype": """dtype : dtype, optional
    In which it is computed, and of the result; by default int64 for booleans and signed integers,
    uint64 for unsigned ones, and the array's own for others.""",
    "operator": """op : function
    Of two values, a plain function, a lambda or one under `kerneldsl.func`, which kernels can call.
    {}
    A function is compiled once; a new one of the same text is compiled anew.
identity : number
    What `op` leaves every value unchanged with; it is combined with elements more than once.
dtype : dtype, optional
    In which values are combined, and of the result; by default the array's own.""",
    "size": """size : int or tuple of int, optional
    The shape of the array; one number by default, or as many as `out` has elements.""",
    "drawn parameters": """{size}
dtype : dtype, optional
    float64 (by default), float32, float16 or bfloat16, in which numbers are drawn; the last two are
    computed as float32 and rounded.
{drawn out}""",
    "drawn out": """out : array, optional
    Where the numbers go, of any kind and layout, and of their shape and dtype.
{returns: device array, or NumPy scalar}""",
    "drawn": """    A device array on the generator's device, or without a `size` a NumPy scalar;
    `out`, where it is given.
{raises where: a parameter is none that the distribution has, or `out` does not fit.}""",
    "drawn raises": """{raises where: a parameter is none that the distribution has.}""",
    "gradient": """grad : array
    The gradient by the result, of float32, float64, float16 or bfloat16, of any layout.""",
    "filtered": """x : array
    NumPy's, a device array, or one of another library; of any layout. Integers or floats.""",
    "origins": """origin : int or tuple of int
    How far the middle of the {} is moved, along all axes or each.""",
    "border": """mode : str
    {beyond}
{cval}""",
    "border of each axis": """mode : str or tuple of str
    {beyond}
    A tuple has a mode for each axis.
{cval}""",
    "beyond": """How the array goes on beyond its borders:
``"reflect"`` (d c b a | a b c d | d c b a), ``"mirror"`` (d c b | a b c d | c b a),
``"nearest"`` (a a a | a b c d | d d d), ``"wrap"`` (b c d | a b c d | a b c) or ``"constant"``,
with `cval`; also ``"grid-mirror"``, ``"grid-wrap"`` and ``"grid-constant"``.""",
    "cval": """cval : float
    What lies beyond the borders of mode ``"constant"``.""",
    "parameters of weights": """{parameters: filtered}
weights : array
    Of as many axes as `x`, one to three; read on the host.
{border}
{origins: weights}
{filtered result}""",
    "parameters of a line": """{parameters: filtered}
weights : array of shape (n,)
    Read on the host.
axis : int
    Along which neighbours lie.
{border}
origin : int
    How far the middle of the weights is moved.
{filtered result}""",
    "parameters of a derivative": """{parameters: filtered}
axis : int
    Along which it is derived.
{border of each axis}
{filtered result}""",
    "filtered result": """out : array, optional
    Where the result goes, of `x`'s shape, dtype and kind.

{returns: array}
    Of `x`'s shape, dtype and kind; `out`, where it is given. Of integers sums are float64, of which
    the fraction is cut off after each axis, as in SciPy; of floats they have the array's dtype, and
    of float16 and bfloat16 they are float32.
{raises where: `x` is no array of numbers, or another argument does not fit.}""",
    "raises if empty and see": """{raises}
{or value error: Where the axes that are reduced have no elements.}
{see: {}}""",
    "raises by operator and see": """{raises}
kerneldsl.errors.KernelError
    Where `op` cannot be compiled.
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
    Where `x` is no array, or of another dtype, there is no such axis, or another argument does not
    fit.""",
    "or value error": """kerneldsl.errors.ArgumentValueError
    {}""",
    "raises where": """Raises
------
kerneldsl.errors.ArgumentError
    Where {}""",
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
    What is reduced; all axes by default.
{out}
{keepdims}""",
    "parameters of a place": """{parameters: real array}
axis : int, optional
    What is reduced; by default the array is taken as flattened in C order.
{out}
{keepdims}""",
    "parameters of a spread": """{reduction of: array}
dtype : dtype, optional
    In which it is computed; by default float64 for booleans and integers, and the array's own for
    others. The result has it, too, or its real part's.
ddof : float
    What the number of elements is lessened by in the divisor.
correction : float, optional
    The array API's name for `ddof`.
{mask}""",
    "reduced": """{returns: NumPy scalar or array, or device array}
    Of `x`'s kind; `out`, where it is given.""",
    "parameters of a scan": """{parameters: real array}
{along or flattened}
{out}
exclusive : bool
    Whether an element itself is left out, so that the first one becomes what nothing comes to.
reverse : bool
    Whether elements follow each other from the last to the first.""",
    "scanned": """{returns: array}
    Of `x`'s kind, and its shape, or of shape ``(x.size,)`` without an axis; `out`, where it is
    given.""",
    "parameters of rows": """{parameters: real array}
axis : int
    Along which the elements of a row follow each other.
out : array, optional
    Where the result goes, of `x`'s shape and kind and the result's dtype; `x` itself will do.""",
    "weight": """weight : array of shape (n,), optional
    What the elements along the axis, n of them, are multiplied by; of `x`'s kind, ones by
    default.""",
    "rows": """{returns: array}
    Of `x`'s shape and kind; float64 for booleans and integers, else of `x`'s dtype. float16 and
    bfloat16 are computed as float32. `out`, where it is given.""",
    "parameters of a gradient": """{parameters: gradient}
{} : array
    Of `grad`'s shape, dtype and kind: x is the input, and y the result.
axis : int
    That of the call.""",
    "parameters of a norm's gradient": """{parameters of a gradient: x}
weight : array of shape (n,), optional
    The weights of the call; ones by default.
eps : float, optional
    That of the call, with its default.""",
    "scores and labels": """x : array
    The scores of the classes, of any layout; of booleans, integers or floats.
labels : array
    Which place along the axis is right in each row: integers, of `x`'s shape without the axis, and
    of its kind.
axis : int
    Along which the scores of a row follow each other.
ignore_index : int
    The label of rows that are left out: their loss is 0.""",
    "like x": """{returns: array}
    Of `x`'s kind and dtype{}.""",
    "grey image": """image : array of shape (h, w)
    Of any layout; uint8, float32 or float64.""",
    "grey out": """out : array of shape (h, w), optional
    Where the result goes, of the result's dtype and of `image`'s kind.""",
    "grey raises": """{raises where: `image` is no grey image, or `out` does not fit.}""",
    "seed and device": """seed : int{}, optional
    The key, of 64 bits; other seeds give independent numbers. One that nobody knows by default.
device : device, optional
    Where arrays are made; by default the current one, at each call.""",
    "places along": """{parameters: array}
indices : array
    Integers of `x`'s kind, not uint64, and of its shape but for the axis.""",
    "gradient raises": """{raises where: the arrays do not fit, or there is no such axis.}""",
}


def documented(public: T) -> T:
    """Fill in the words of a function's or a class's docstring; a decorator."""
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
    """Return a text with the word of examples before the first one, if it has no title."""
    before, prompt, behind = text.partition(">>>")
    if not prompt or "{examples: " in before or "Examples\n" in before:
        return text
    margin = before.rpartition("\n")[2]
    return f"{before}{{examples}}\n{margin}{prompt}{behind}"


def _filled(text: str, source: str) -> Iterator[str]:
    """Return the lines of a text; `source` is what its examples import."""
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
