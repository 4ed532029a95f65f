"""Kernels in texts that a program executes, once these are recorded."""

from __future__ import annotations

import subprocess
import sys
import textwrap


def run(text):
    program = "import kerneldsl.drop_in\n" + textwrap.dedent(text)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=200
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_each_way_to_execute_a_text():
    assert run(
        """
            import numpy as np, kerneldsl as kd
            kd.use("cpu")
            def make(op):
                found = {}
                exec(f"@kd.kernel\\ndef k(x):\\n    x[0] = x[0] {op} 3\\n", globals(), found)
                return found["k"]
            x = np.ones(1)
            for op in "+*-":
                make(op)[1, 1](x)
                print(x[0])
            exec(compile("@kd.kernel\\ndef k(x): x[0] = 7", "<mine>", "exec"))
            k[1, 1](x)
            print(x[0])
            exec(b"@kd.kernel\\ndef k(x): x[0] = 8")
            k[1, 1](x)
            print(x[0])
            """
    ).split() == ["4.0", "12.0", "9.0", "7.0", "8.0"]


def test_an_error_shows_the_line_of_the_text():
    assert "    x[0] = missing" in run(
        """
        import numpy as np, kerneldsl as kd
        kd.use("cpu")
        exec("@kd.kernel\\ndef k(x):\\n    x[0] = missing\\n")
        try:
            k[1, 1](np.ones(1))
        except kd.KernelError as error:
            print(error)
        """
    )


def test_exec_and_compile_mean_what_they_mean():
    assert run(
        """
            def f():
                y = 5
                exec("z = y + 1")
                return sorted(locals())
            print(f())
            names = {}
            exec("from __future__ import annotations\\ndef g(x: no_such): pass", names)
            print(names["g"].__annotations__)
            print(eval(compile("1 + 1", "<x>", "eval")), compile("1", "f", "eval").co_filename)
            try:
                exec("1 +")
            except SyntaxError as error:
                print(error.filename)
            """
    ).splitlines() == ["['y', 'z']", "{'x': 'no_such'}", "2 f", "<string>"]
