"""Order: sorts and the places that sort, the largest elements, and searches in what is sorted."""

from stdlib_kernels.families import make_callable
from stdlib_kernels.sort.ordering import argsort, sort, sort_pairs, top_k
from stdlib_kernels.sort.searching import merge, searchsorted

__all__ = ["argsort", "merge", "searchsorted", "sort", "sort_pairs", "top_k"]

make_callable(__name__)
