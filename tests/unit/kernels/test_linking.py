"""Options of ``@kd.func(link=…)``: what they are read as, and mistakes."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys

import numba
import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.contract.cuda_options import CudaOptions
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError
from kerneldsl.frontend.linked_code import CodeForm, code_of
from kerneldsl.language.signatures import read_function_signature
from tests.support.linked_code import CUDA, PTX


def _function(a, b):
    return a * b


def link(link=PTX, signature="float32(float32, float32)", function=_function, **options):
    return kd.func(link=link, signature=signature, **options)(function)


def test_plain_python_calls_the_body():
    assert link()(3, 4) == 12
    assert repr(link()) == f"<device function {__name__}._function(a, b)>"


@pytest.mark.parametrize(
    ("suffix", "form"),
    [
        (".cu", CodeForm.CUDA),
        (".ptx", CodeForm.PTX),
        (".cubin", CodeForm.CUBIN),
        (".fatbin", CodeForm.FATBIN),
        (".ltoir", CodeForm.LTO_IR),
    ],
)
def test_the_suffix_says_what_a_file_is(suffix, form, tmp_path):
    path = tmp_path / f"code{suffix}"
    path.write_bytes(b"contents")
    for given in (path, str(path)):
        code = code_of(link(given))
        assert code.form is form
        assert (code.code, code.path) == (b"contents", str(path))


def test_a_byte_order_mark_is_left_out(tmp_path):
    path = tmp_path / "code.cu"
    path.write_text(CUDA, encoding="utf-8-sig")
    assert code_of(link(path)).code == CUDA.encode()


@pytest.mark.parametrize(
    ("head", "form"),
    [
        (b"\x7fELF...", CodeForm.CUBIN),
        (b"\xedCN\x7f...", CodeForm.LTO_IR),
        (b"\x50\xed\x55\xba...", CodeForm.FATBIN),
        (b"// text\n.version 8.0\n", CodeForm.PTX),
        (b".version 8.0\n\0", CodeForm.PTX),
    ],
)
def test_the_head_says_what_bytes_are(head, form):
    for kind in (bytes, bytearray, memoryview):
        assert code_of(link(kind(head))).form is form


def test_a_path_is_beside_the_python_file(tmp_path):
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "weigh.cu").write_text(CUDA)
    (folder / "module.py").write_text(
        "import kerneldsl as kd\n"
        "@kd.func(link='weigh.cu', signature='float32(float32, float32)')\n"
        "def weigh(a, b):\n"
        "    return a * b\n"
        "print(weigh.__kerneldsl_linked__.path)\n"
    )
    done = subprocess.run(
        [sys.executable, folder / "module.py"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout == f"{folder / 'weigh.cu'}\n", done.stderr


def test_signatures_of_numba():
    wanted = read_function_signature("float32(int32, float64[::1])")
    assert read_function_signature(numba.float32(numba.int32, numba.float64[::1])) == wanted
    assert read_function_signature(numba.void(numba.int8))[0] is None


def _refuse(kind=ArgumentValueError, **given) -> str:
    with pytest.raises(kind) as caught:
        link(**given)
    return str(caught.value)


def test_mistaken_links(tmp_path):
    assert "link is 'a\\x00.cu'. It must be a path" in _refuse(ArgumentTypeError, link="a\0.cu")
    said = _refuse(link="nowhere.cu")
    assert re.search(r"tests/unit/kernels/nowhere.cu cannot be read: No such file", said)
    assert "relative to the folder of the Python file" in said
    assert ".cu, .ptx, .ltoir, .cubin, .fatbin" in _refuse(link="code.cpp")
    assert "PTX, LTO-IR, a cubin or a fat binary" in _refuse(link=b"float f(float x);")
    assert "It must be a path, or the bytes" in _refuse(ArgumentTypeError, link=3)


@pytest.mark.parametrize(
    ("signature", "said"),
    [
        (None, "has link= and no signature="),
        ("float32, float32", "write the type of the result before"),
        ("float(", "write the type of the result before"),
        ("float32(float32)", "takes a, b, and its signature 'float32(float32)' has 1"),
        ("float33(float32, float32)", "unknown dtype 'float33'"),
        ("complex64(float32, float32)", "has complex64"),
        ("float32(float16, float32)", "Pass an array, such as float16[::1]"),
        ("float32((float32, int32), float32)", "Pass its members one by one"),
        ("float32(float32[:], float32)", "Write float32[::1]"),
        ("float32(bfloat16, float32)", "Values are integers, bool, float32 and float64"),
    ],
)
def test_mistaken_signatures(signature, said):
    kind = ArgumentTypeError if signature is None else ArgumentValueError
    assert said in _refuse(kind, signature=signature)


def test_other_mistakes():
    assert "extern" in _refuse(name="a b")
    said = _refuse(signature="void(float32[::1], int64)", pure=True)
    assert "A function that takes an array may read and write it" in said
    assert "kd.CudaOptions" in _refuse(ArgumentTypeError, options=["-DX"])
    assert "compiled already" in _refuse(options=CudaOptions())
    assert "pure" in _refuse(ArgumentTypeError, pure="yes")
    with pytest.raises(ArgumentTypeError, match="without link"):
        kd.func(signature="float32(float32)")(_function)
    with pytest.raises(ArgumentTypeError, match="the option 'lnik'"):
        kd.func(lnik="a.cu")

    def many(*values):
        return 0

    assert r"without * and **" in _refuse(function=many)


def test_a_linked_function_is_pickled_with_its_code():
    def body(a, b):
        return a - b

    made = link(function=body)
    copied = pickle.loads(pickle.dumps(made))  # noqa: S301
    assert copied(5, 3) == 2
    assert list(code_of(copied).identity()) == list(code_of(made).identity())


@pytest.mark.parametrize("size", [0, 1, 31, 1001])
def test_the_cpu_converts_arguments_and_results(size):
    @kd.func(link=PTX, signature="int8(int32)")
    def wrapped(n):
        return n

    @kd.kernel
    def wraps(x, out):
        i = kd.grid(1)
        if i < out.size:
            out[i] = wrapped(x[i])

    x = np.arange(size, dtype=np.int64) * 77 + (1 << 33)
    for launch in (wraps.forall(max(size, 1)), wraps[(size + 127) // 128 + 1, 128]):
        out = np.full(size, 1 << 20, np.int64)
        with kd.use("cpu"):
            launch(x, out)
        np.testing.assert_array_equal(out, x.astype(np.int8))
