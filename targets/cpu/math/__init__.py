"""Arithmetic and mathematical functions, written for LLVM's vectorizer."""
