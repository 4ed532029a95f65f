"""Trees are walked and copied as Python's own functions do it, but for what has no fields."""

from __future__ import annotations

import ast
from pathlib import Path
from random import Random

import pytest

import kerneldsl
from kerneldsl.frontend.trees import Transformer, children_of, copy_tree, fill_locations, walk_here

MARKS = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)
SOURCES = sorted(Path(kerneldsl.__file__).parent.glob("frontend/*.py"))


@pytest.fixture(scope="module")
def trees() -> list[ast.Module]:
    return [ast.parse(path.read_text(encoding="utf-8")) for path in SOURCES]


def test_the_order_is_that_of_python(trees):
    for tree in trees:
        expected = [node for node in ast.walk(tree) if not isinstance(node, MARKS)]
        assert list(walk_here(tree)) == expected


def test_nodes_of_a_list_are_walked_one_after_the_other(trees):
    body = trees[0].body
    assert list(walk_here(body)) == [inner for node in body for inner in walk_here(node)]


def test_a_node_may_be_changed_once_it_is_yielded():
    tree = ast.parse("f(a, b)")
    found = []
    for node in walk_here(tree):
        if isinstance(node, ast.Call):
            node.args = []
        if isinstance(node, ast.Name):
            found.append(node.id)
    assert found == ["f", "a", "b"]


def test_children_are_those_of_python(trees):
    for tree in trees:
        for node in ast.walk(tree):
            expected = [each for each in ast.iter_child_nodes(node) if not isinstance(each, MARKS)]
            assert children_of(node) == expected


def test_locations_are_filled_as_python_fills_them():
    names = ("lineno", "col_offset", "end_lineno", "end_col_offset")
    for path in SOURCES:
        pair = [ast.parse(path.read_text(encoding="utf-8")) for _ in range(2)]
        for tree in pair:
            random = Random(1)
            for node in ast.walk(tree):
                for name in random.choice(((), (), names[2:], names)):
                    if name in node.__dict__:
                        delattr(node, name)
        expected, filled = ast.fix_missing_locations(pair[0]), fill_locations(pair[1])
        assert ast.dump(filled, include_attributes=True) == ast.dump(
            expected, include_attributes=True
        )


class _Rewriting:
    """Renames, drops and doubles nodes of several kinds."""

    def visit_Name(self, node):
        return ast.Name(node.id + "_", node.ctx)

    def visit_Expr(self, node):
        return None

    def visit_If(self, node):
        self.generic_visit(node)
        return [node, copy_tree(node)]

    def visit_Return(self, node):
        node.value = None if isinstance(node.value, ast.Name) else node.value
        self.generic_visit(node)
        return node

    def visit_arg(self, node):
        node.annotation = None
        return node


class _Ours(_Rewriting, Transformer):
    pass


class _Pythons(_Rewriting, ast.NodeTransformer):
    pass


def test_a_tree_is_rewritten_as_by_python(trees):
    for tree in trees:
        mine, yours = copy_tree(tree), copy_tree(tree)
        assert _Ours().visit(mine) is mine
        _Pythons().visit(yours)
        assert ast.dump(mine) == ast.dump(yours)


def test_methods_belong_to_their_class():
    class Renaming(Transformer):
        def visit_Name(self, node):
            return ast.Name("b", node.ctx)

    class Leaving(Renaming):
        visit_Name = Transformer.generic_visit

    assert ast.unparse(Renaming().visit(ast.parse("a"))) == "b"
    assert ast.unparse(Leaving().visit(ast.parse("a"))) == "a"


def test_a_copy_is_equal_and_shares_no_node_with_fields(trees):
    for tree in trees:
        copied = copy_tree(tree)
        assert ast.dump(copied, include_attributes=True) == ast.dump(tree, include_attributes=True)
        assert not set(walk_here(copied)) & set(walk_here(tree))


def test_a_copy_can_be_changed_alone():
    tree = ast.parse("a < b <= c")
    copied = copy_tree(tree)
    copied.body[0].value.ops[0] = ast.Gt()
    copied.body[0].value.comparators.pop()
    assert ast.unparse(tree) == "a < b <= c"
