"""What numba-cuda's tests are written with: test cases, and decorators that skip."""

from __future__ import annotations

import cmath
import contextlib
import importlib.util
import io
import math
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import warnings
from pathlib import Path

import numpy as np

from kerneldsl.placement.devices import current_device

#: The folder of data files of the suite.
DATA = Path()
HAS_NUMBA = True
MACHINE_BITS = 8 * struct.calcsize("P")
IS_NUMPY_2 = True
PYVERSION = sys.version_info[:2]
#: Set in a process that runs one test.
_IN_PROCESS = "KERNELDSL_SUITE_TEST"


class TestCase(unittest.TestCase):
    """A test case with comparisons of numbers and of warnings."""

    longMessage = True

    @contextlib.contextmanager
    def assertRefCount(self, *objects):
        yield

    def assertPreciseEqual(
        self, first, second, prec="exact", ulps=1, msg=None, ignore_sign_on_zero=False, abs_tol=None
    ):
        """Compare values and dtypes; to a number of units in the last place if asked.

        As numba-cuda's does: two complex numbers are equal if each has a NaN, and what one may be
        off is measured by the sizes of both.
        """
        more = ignore_sign_on_zero, abs_tol
        if isinstance(first, (tuple, list)):
            self.assertEqual(len(first), len(second), msg)
            for a, b in zip(first, second, strict=True):
                self.assertPreciseEqual(a, b, prec, ulps, msg, *more)
            return
        if isinstance(first, np.ndarray) or isinstance(second, np.ndarray):
            self.assertEqual(first.dtype, second.dtype, msg)
            self.assertEqual(first.shape, second.shape, msg)
            if first.dtype.names is None:
                for a, b in zip(first.flat, second.flat, strict=True):
                    self.assertPreciseEqual(a, b, prec, ulps, msg, *more)
                return
        if not isinstance(first, (float, complex, np.inexact)):
            np.testing.assert_array_equal(first, second, err_msg=msg or "")
            return
        if cmath.isnan(first) and cmath.isnan(second):
            return
        bits = {"single": 24, "double": 53}.get(prec)
        allowed = 0.0
        if bits is not None:
            with np.errstate(all="ignore"):
                allowed = 2.0 ** (ulps - bits - 1) * (abs(complex(first)) + abs(complex(second)))
        if abs_tol is not None:
            allowed = max(allowed, np.finfo(type(first)).eps if abs_tol == "eps" else abs_tol)
        for one, two in ((first.real, second.real), (first.imag, second.imag)):
            is_same = one == two or (cmath.isnan(one) and cmath.isnan(two))
            if is_same and one == 0 and not ignore_sign_on_zero:
                is_same = math.copysign(1, one) == math.copysign(1, two)
            may_differ = one != two and math.isfinite(one) and math.isfinite(two)
            if not is_same and not (may_differ and abs(one - two) <= allowed):
                self.fail(f"{first} != {second} by more than {allowed}: {msg}")

    def reset_module_warnings(self, module):
        """Let the warnings of a module be shown again."""
        name = module if isinstance(module, str) else module.__name__
        if name in sys.modules:
            vars(sys.modules[name]).pop("__warningregistry__", None)

    def random(self):
        return np.random.RandomState(42)

    @contextlib.contextmanager
    def check_warnings(self, messages, category=RuntimeWarning):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            yield
        said = [str(each.message) for each in found if issubclass(each.category, category)]
        for message in messages:
            self.assertTrue(
                any(message in each for each in said), f"{message!r} not found in {said}"
            )

    def make_dummy_type(self):
        """Return a class, and Numba's type of it, which no other test has."""
        from numba.tests.support import TestCase as OfNumba

        return OfNumba.make_dummy_type(self)

    @contextlib.contextmanager
    def assertNoNRTLeak(self):
        yield

    @contextlib.contextmanager
    def assertTypingError(self):
        from numba.core.errors import TypingError

        with self.assertRaises(TypingError) as raises:
            yield raises

    @staticmethod
    def run_test_in_subprocess(test):
        """Return a test that runs in a new process."""

        def run(self):
            if os.environ.get(_IN_PROCESS):
                test(self)
                return
            command = [sys.executable, "-m", "unittest", self.id()]
            environment = {**os.environ, _IN_PROCESS: "1"}
            done = subprocess.run(command, env=environment, capture_output=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr.decode())

        return run

    def subprocess_test_runner(self, *args, **named):
        self.skipTest("runs numba-cuda's own runner")


class CUDATestCase(TestCase):
    """A test case of kernels."""

    FLOAT16_RTOL = np.finfo(np.float16).eps

    def setUp(self):
        from numba.core import config

        self._before = (config.CUDA_LOW_OCCUPANCY_WARNINGS, config.CUDA_WARN_ON_IMPLICIT_COPY)
        config.CUDA_LOW_OCCUPANCY_WARNINGS = config.CUDA_WARN_ON_IMPLICIT_COPY = 0

    def tearDown(self):
        from numba.core import config

        config.CUDA_LOW_OCCUPANCY_WARNINGS, config.CUDA_WARN_ON_IMPLICIT_COPY = self._before

    def _check_text(self, text, checks, prefixes, **options):
        # The package filecheck need not be installed; without it these tests fail.
        from filecheck.finput import FInput
        from filecheck.matcher import Matcher
        from filecheck.options import Options
        from filecheck.parser import Parser, pattern_for_opts

        given = Options(match_filename="-", check_prefixes=list(prefixes), **options)
        parser = Parser(given, io.StringIO(checks), *pattern_for_opts(given))
        matcher = Matcher(given, FInput(fname="-", content=text), parser)
        matcher.stderr = io.StringIO()
        if matcher.run() != 0:
            self.fail(f"FileCheck failed: {matcher.stderr.getvalue()}")

    def _check_code(self, function, texts, signature, prefixes, **options):
        found = [texts[signature]] if signature else list(texts.values())
        self.assertTrue(found)
        for text in found:
            self._check_text(text, function.__doc__, prefixes, **options)

    def assertFileCheckAsm(self, ir_producer, signature=None, check_prefixes=("ASM",), **options):
        """Compare PTX with the checks in the text of a kernel."""
        self._check_code(
            ir_producer, ir_producer.inspect_asm(), signature, check_prefixes, **options
        )

    def assertFileCheckLLVM(self, ir_producer, signature=None, check_prefixes=("LLVM",), **options):
        """Compare LLVM IR with the checks in the text of a kernel."""
        self._check_code(
            ir_producer, ir_producer.inspect_llvm(), signature, check_prefixes, **options
        )

    def assertFileCheckMatches(self, ir_content, check_patterns, check_prefixes=("CHECK",), **more):
        """Compare a text with checks."""
        self._check_text(ir_content, check_patterns, check_prefixes, **more)


class CheckWarningsMixin:
    """Comparisons of warnings, which a test case has already."""


class EnableNRTStatsMixin:
    """Statistics of a runtime that kernels do not need."""


class MemoryLeakMixin:
    """Checks of a runtime that kernels do not need."""


class ForeignArray:
    """An array of another library."""

    def __init__(self, arr):
        self._arr = arr
        self.__cuda_array_interface__ = arr.__cuda_array_interface__


@contextlib.contextmanager
def captured_stdout():
    with contextlib.redirect_stdout(io.StringIO()) as found:
        yield found


@contextlib.contextmanager
def captured_stderr():
    with contextlib.redirect_stderr(io.StringIO()) as found:
        yield found


@contextlib.contextmanager
def override_config(name, value):
    from numba.core import config

    before = getattr(config, name, None)
    setattr(config, name, value)
    try:
        yield
    finally:
        setattr(config, name, before)


@contextlib.contextmanager
def override_env_config(name, value):
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


@contextlib.contextmanager
def ignore_internal_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def temp_directory(prefix):
    return tempfile.mkdtemp(prefix=prefix)


def import_dynamic(name):
    __import__(name)
    return sys.modules[name]


def run_in_subprocess(code, flags=(), env=None, timeout=120):
    """Run a program, which needs the drop-in as well."""
    text = "import kerneldsl.drop_in\n" + code
    command = [sys.executable, *flags, "-c", text]
    options = {"capture_output": True, "text": True, "timeout": timeout, "check": False}
    done = subprocess.run(command, env=env, **options)
    if done.returncode:
        raise AssertionError(f"process failed with code {done.returncode}: {done.stderr}")
    return done.stdout, done.stderr


def _unless(condition, reason):
    return unittest.skipUnless(condition, reason)


def _never(reason):
    return lambda test: test


#: The attribute of tests that numba-cuda's simulator skips.
SKIPPED_BY_SIMULATOR = "_is_skipped_by_simulator"


def skip_on_cudasim(reason):
    def mark(test):
        setattr(test, SKIPPED_BY_SIMULATOR, True)
        return test

    return mark


skip_if_nvjitlink_missing = _never
skip_if_external_memmgr = skip_under_cuda_memcheck = skip_on_arm = skip_on_wsl2 = _never
skip_on_nvjitlink_13_1_sm_120 = skip_on_win32 = _never


def skip_unless_cudasim(reason):
    return unittest.skip(reason)


def skip_without_nvdisasm(reason):
    return _unless(shutil.which("nvdisasm"), reason)


def skip_with_nvdisasm(reason):
    return _unless(not shutil.which("nvdisasm"), reason)


def skip_unless_conda_cudatoolkit(reason):
    return unittest.skip(reason)


skip_unless_cffi = _unless(importlib.util.find_spec("cffi"), "needs cffi")


def _same(test):
    return test


skip_on_standalone_numba_cuda = skip_if_cudadevrt_missing = _same
skip_if_cuda_includes_missing = skip_if_curand_kernel_missing = _same
linux_only = xfail_unless_cudasim = _same
xfail_unless_cudasim = unittest.expectedFailure
windows_only = unittest.skip("for Windows")


def cc_X_or_above(major, minor):
    device = current_device()
    return device.is_host or device.describe().compute_capability >= (major, minor)


def _unless_cc(major, minor):
    return _unless(cc_X_or_above(major, minor), f"requires cc >= {major}.{minor}")


skip_unless_cc_50 = _unless_cc(5, 0)
skip_unless_cc_53 = _unless_cc(5, 3)
skip_unless_cc_60 = _unless_cc(6, 0)
skip_unless_cc_75 = _unless_cc(7, 5)
skip_unless_cc_90 = _unless_cc(9, 0)
