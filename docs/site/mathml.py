"""Formulas as MathML, which browsers show without scripts, and without the network."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

__all__ = ["setup"]


def _mathml(node: nodes.Element, *, is_block: bool) -> str:
    text = node.astext().strip().removeprefix(r"\displaystyle").strip()
    try:
        return tex2mathml(text, as_block=is_block)
    except MathError as error:
        raise ExtensionError(
            f"{node.source}:{node.line}: no MathML for {text!r}: {error}"
        ) from error


def _visit_inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(_mathml(node, is_block=False))
    raise nodes.SkipNode


def _visit_block(translator: Any, node: nodes.math_block) -> None:
    opening = translator.starttag(node, "div", CLASS="math")
    translator.body.append(f"{opening}{_mathml(node, is_block=True)}</div>")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer ``mathml``."""
    app.add_html_math_renderer("mathml", (_visit_inline, None), (_visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
