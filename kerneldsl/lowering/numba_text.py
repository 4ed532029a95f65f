"""Parts of the text of Numba's errors: types, functions and lines, in the words of signatures."""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["arguments_of", "first_line", "last_name", "message_of", "plain", "unliteral"]

#: What colours a terminal; Numba puts it into its messages where colorama is installed.
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_LITERAL = re.compile(r"Literal\[(\w+)\]\((.*?)\)")
_LITERAL_TYPES = {"int": "int64", "bool": "bool", "str": "str"}
#: Types that no array's element is of, as Numba's text begins, and what they are in Python.
_OTHER_TYPES = (
    ("unicode_type", "str"),
    ("none", "None"),
    ("DictType", "dict"),
    ("set(", "set"),
    ("class(", "type"),
    ("enumerate(", "enumerate"),
    ("zip(", "zip"),
    ("iter(", "iterator"),
    ("range_", "range"),
    ("slice<", "slice"),
)


def message_of(error: BaseException) -> str:
    """Return the text of an error of Numba's, without colours."""
    return _COLOUR.sub("", str(getattr(error, "msg", None) or error))


def first_line(text: str) -> str:
    """Return the first line that says something of its own."""
    return next(_telling_lines(text), "the compiler gave no reason")


def _telling_lines(text: str) -> Iterator[str]:
    for line in text.splitlines():
        stripped = line.strip()
        if stripped and not stripped.startswith(("Failed in ", "File ", "During: ", ">>>")):
            yield stripped.rstrip(".")


def unliteral(numba_text: str) -> str:
    """Return the text with the types of literals in their places.

    Examples
    --------
    >>> unliteral("(Literal[int](0), Literal[str](a), float32)")
    '(int64, str, float32)'
    """
    return _LITERAL.sub(lambda match: _LITERAL_TYPES.get(match[1], match[1]), numba_text)


def plain(numba_text: str) -> str:
    """Return types as Numba prints them, in the notation of signatures.

    Examples
    --------
    >>> plain("readonly array(float32, 2d, C)"), plain("UniTuple(int64 x 2)")
    ('float32[:, ::1]', 'tuple(int64 x 2)')
    """
    text = re.sub(r"\b(?:Uni)?Tuple\(", "tuple(", unliteral(numba_text))
    if " generator(" in text:
        return "generator"
    for start, name in _OTHER_TYPES:
        if text.startswith(start):
            return name

    def array(match: re.Match[str]) -> str:
        ndim, layout = int(match[2]), match[3]
        axes = [":"] * ndim
        if ndim and layout in "CF":
            axes[-1 if layout == "C" else 0] = "::1"
        return f"{match[1]}[{', '.join(axes)}]"

    return re.sub(r"(?:readonly )?array\((\w+), (\d)d, (\w)\)", array, text)


def arguments_of(numba_text: str) -> list[str]:
    """Return the types in a list of arguments, each in the notation of signatures.

    Examples
    --------
    >>> arguments_of("array(float64, 1d, C), Literal[int](0), Tuple(int64, float32)")
    ['float64[::1]', 'int64', 'tuple(int64, float32)']
    """
    parts, depth = [""], 0
    for character in unliteral(numba_text):
        depth += (character in "([<{") - (character in ")]>}")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [plain(part.strip()) for part in parts if part.strip()]


def last_name(qualified: str) -> str:
    """Return ``sqrt`` for ``<ufunc 'sqrt'>`` or ``<built-in function sqrt>``.

    Examples
    --------
    >>> last_name("<ufunc 'sqrt'>"), last_name("<built-in function sqrt>")
    ('sqrt', 'sqrt')
    """
    quoted = re.search(r"'(\w+)'", qualified)
    if quoted:
        return quoted[1]
    words = re.findall(r"\w+", re.sub(r" at 0x[0-9a-f]+", "", qualified))
    return words[-1] if words else qualified
