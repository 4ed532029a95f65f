"""References between pages: names in docstrings and prose lead to their entries in the reference.

Docstrings name classes as their module knows them, such as ``Kernel`` or
``kerneldsl.memory.arrays.DeviceArray``; the reference has each public name once, where programs
import it from. In prose the code ``kd.empty`` leads to its entry.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.addnodes import desc_signature, pending_xref
from sphinx.application import Sphinx
from sphinx.domains.python import PythonDomain
from sphinx.environment import BuildEnvironment
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.nodes import make_refnode

from docs.site.api import documented_name

__all__ = ["setup"]

#: Our packages: what of them is not public has no entry, and what is outside has no page here.
_OURS = ("kerneldsl", "targets", "stdlib_kernels")
_BACKLINK = re.compile(r'<a class="viewcode-back".*?</a>')
_IN_PROSE = re.compile(r"(?:kd|kerneldsl|stdlib_kernels)\.([A-Za-z_][\w.]*)(?:\(.*\))?")


def _entry(env: BuildEnvironment, name: str) -> tuple[str, str] | None:
    """Return the page and the anchor of a name's entry."""
    domain = env.domains["py"]
    assert isinstance(domain, PythonDomain)
    found = domain.objects.get(name)
    return (found.docname, found.node_id) if found else None


def _resolve(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, contents: nodes.TextElement
) -> Any:
    """Lead a reference to the public name of what it means, or leave it as plain code."""
    if node.get("refdomain") != "py":
        return None
    target = node["reftarget"].removeprefix("~")
    for module in (node.get("py:module"), None):
        name = documented_name(f"{module}.{target}" if module else target)
        entry = _entry(env, name) if name else None
        if entry is not None:
            return make_refnode(app.builder, node["refdoc"], *entry, contents, name)
    # A public name that has no entry is a mistake; what is internal, or another package's, is not.
    if target.startswith(_OURS) and documented_name(target) is not None:
        return None
    return contents


def _leave_words(app: Sphinx, doctree: nodes.document) -> None:
    """Take references from words in the types of parameters, such as "function" or "device".

    Sphinx looks for whatever ends in such a word.
    """
    for node in list(doctree.findall(pending_xref)):
        if node.get("refspecific") and node["reftarget"].islower() and "." not in node["reftarget"]:
            node.replace_self(nodes.inline("", node["reftarget"]))


def _leave_backlinks(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Remove links from a source to its entry: viewcode guesses their anchors."""
    if page.startswith("_modules/"):
        context["body"] = _BACKLINK.sub("", context.get("body", ""))


class LinkNamesInProse(SphinxPostTransform):
    """Let code in prose that is a public name lead to its entry."""

    default_priority = 500

    def run(self, **kwargs: Any) -> None:
        """Put a reference around each such piece of code."""
        for literal in list(self.document.findall(nodes.literal)):
            parent, match = literal.parent, _IN_PROSE.fullmatch(literal.astext())
            if match is None or isinstance(parent, nodes.reference | nodes.title | desc_signature):
                continue
            text = literal.astext().partition("(")[0]
            name = re.sub(r"^kd\.", "kerneldsl.", text)
            entry = _entry(self.env, name)
            if entry is not None and entry[0] != self.env.docname:
                link = make_refnode(
                    self.app.builder, self.env.docname, *entry, literal.deepcopy(), name
                )
                parent.replace(literal, link)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register what leads references."""
    app.connect("doctree-read", _leave_words)
    app.connect("missing-reference", _resolve)
    app.connect("html-page-context", _leave_backlinks)
    app.add_post_transform(LinkNamesInProse)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
