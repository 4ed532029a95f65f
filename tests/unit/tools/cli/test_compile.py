"""``kerneldsl compile``: files by their endings, their descriptions, and how kernels are named."""

from __future__ import annotations

import json
import stat
import sys
import textwrap
from pathlib import Path

import pytest

from kerneldsl.errors import ToolMissingError
from kerneldsl.tools.cli import app
from targets.cuda.compile import cubin_file as cubin
from targets.cuda.compile import fatbin, ptxas
from targets.cuda.compile import ptxas as tools
from targets.cuda.compile.cubin_file import read_cubin
from targets.cuda.compile.fatbin import read_fatbin

KERNELS = """
import kerneldsl as kd
from .helpers import scaled

@kd.kernel("float32[::1]")
def declared(x):
    x[kd.grid(1)] = scaled(x[kd.grid(1)])

@kd.kernel
def plain(x, out):
    out[kd.grid(1)] = x[kd.grid(1)]

@kd.kernel("float32[::1]")
def in_order(x):
    kd.tile.store(x, 0, kd.tile.load(x, 0, 512).sort())

@kd.kernel("float32[::1]", space=kd.Space(block=[(32, 2), (64, 1)], items=[1, 2]))
def spaced(x, *, items):
    x[kd.grid(1)] = items
"""
HELPERS = """
import kerneldsl as kd

@kd.func
def scaled(x):
    return 2 * x
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a package ``user_package`` of two modules, which is the current one."""
    package = tmp_path / "user_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "blas.py").write_text(textwrap.dedent(KERNELS))
    (package / "helpers.py").write_text(textwrap.dedent(HELPERS))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(*arguments):
    with pytest.raises(SystemExit) as ended:
        app.run([str(a) for a in arguments])
    return ended.value.code or 0


def refusal(capsys, *arguments):
    assert call("compile", *arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "Traceback" not in shown.err
    return shown.err


def test_a_file_that_cannot_be_written_is_refused_before_compiling(folder, capsys, monkeypatch):
    monkeypatch.setattr("kerneldsl.kernels.kernel.Kernel.artifact", None)
    said = refusal(capsys, "user_package.blas:declared", "-o", "missing/x.ptx")
    assert "There is no folder missing" in said
    assert "Choose another file with --output" in said


@pytest.fixture
def no_ptxas(monkeypatch):
    def missing():
        raise ToolMissingError("ptxas was not found")

    monkeypatch.setattr(cubin, "find_ptxas", missing)


def test_a_kernel_of_cuda_code_has_no_such_description(folder, capsys):
    (folder / "user_package" / "cuda.py").write_text(
        "import kerneldsl as kd\n"
        "def on_cpu(x):\n    x[kd.grid(1)] = 1\n"
        "TEXT = 'extern \"C\" __global__ void one(float *x) { x[threadIdx.x] = 1; }'\n"
        "one = kd.cuda_source(TEXT, 'one', 'float32[::1]', cpu=on_cpu)\n"
    )
    said = " ".join(refusal(capsys, "user_package.cuda:one", "-o", "one.cubin").split())
    assert "one is CUDA C++, in <one>. Files are written of kernels in Python" in said
    assert call("compile", "user_package.cuda:one", "--target", "cpu", "-o", "one.s") == 0


# ---------------------------------------------------------------------------------------- outputs


@pytest.mark.parametrize("place", ["user_package/blas.py:declared", "user_package.blas:declared"])
def test_a_kernel_of_a_package_is_found_with_its_relative_imports(folder, capsys, place):
    assert call("compile", place) == 0
    assert ".entry declared" in capsys.readouterr().out


def test_the_shared_memory_that_tiles_need_is_reported(folder):
    assert call("compile", "user_package.blas:in_order", "-o", "k.ptx", "--block", "64") == 0
    report = json.loads(Path("k.ptx.params.json").read_text())
    assert report["static_shared_bytes"] > 4 * 512
    assert call("compile", "user_package.blas:declared", "-o", "k.ptx") == 0
    assert json.loads(Path("k.ptx.params.json").read_text())["static_shared_bytes"] == 0


@pytest.mark.parametrize("name", ["k.ptx", "k.ll"])
def test_files_are_the_same_wherever_they_are_made(folder, tmp_path, capsys, name):
    """They name no folder of the machine that made them, given relatively or absolutely."""
    made = []
    for place in (Path("one"), tmp_path / "two"):
        place.mkdir()
        path = place / name
        assert call("compile", "user_package.blas:declared", "-a", "sm_90", "-o", str(path)) == 0
        made.append({each.name: each.read_bytes() for each in place.iterdir()})
    assert made[0] == made[1]
    assert len(made[0]) == 3
    files = json.loads(made[0][f"{name}.params.json"])["files"]
    assert set(files.values()) == set(made[0])
    for contents in made[0].values():
        assert str(tmp_path).encode() not in contents
        assert str(Path(__file__).parents[4]).encode() not in contents
    capsys.readouterr()
    assert call("compile", "user_package.blas:declared", "-o", str(path), "--json") == 0
    printed = json.loads(capsys.readouterr().out)["files"]
    assert printed["description"] == f"{path}.params.json", "whoever runs it opens that"


def test_every_output_has_a_description_of_its_own(folder):
    described = {}
    for name in ("k.ptx", "k.cubin", "k.s"):
        arch = () if name == "k.s" else ("-a", "sm_80")  # of the processor that is there
        assert call("compile", "user_package.blas:declared", *arch, "-o", name) == 0
        described[name] = json.loads(Path(f"{name}.params.json").read_text())
        report = described[name]
        text = Path(f"{name}.params.txt").read_text()
        assert f"entry       {report['entry']}\n" in text
        for parameter in report["parameters"]:
            assert parameter["name"] in text
        assert name in report["files"].values()
        assert set(report["files"].values()) == {p.name for p in Path().glob(f"{name}*")}
    assert described["k.ptx"]["entry"] == described["k.cubin"]["entry"] == "declared"
    assert described["k.s"]["entry"] == "declared.entry"
    assert Path("k.s.params.txt").read_text().startswith("entry       declared.entry\n")
    assert described["k.cubin"]["arch"] == "sm_80"
    assert described["k.s"]["arch"] is None
    assert f".globl\t{described['k.s']['entry']}" in Path("k.s").read_text()


def test_a_cubin_is_machine_code_that_ptxas_makes(folder):
    assert call("compile", "user_package.blas:declared", "-a", "sm_90", "-o", "k.cubin") == 0
    code = Path("k.cubin").read_bytes()
    assert code[:4] == b"\x7fELF"
    assert b".text.declared" in code
    assert int.from_bytes(code[18:20], "little") == 190, "EM_CUDA"


def test_ptxas_on_the_path_is_asked(folder, monkeypatch):
    tool = folder / "bin" / "ptxas"
    tool.parent.mkdir()
    tool.write_text(
        f"#!{sys.executable}\n"
        "import sys\n"
        "open(sys.argv[sys.argv.index('-o') + 1], 'w').write('machine code of ' + sys.argv[2])\n"
    )
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tool.parent))
    monkeypatch.setattr(tools, "wheel_directories", lambda: iter(()))
    ptxas.find_ptxas.cache_clear()
    try:
        assert call("compile", "user_package.blas:declared", "-a", "sm_86", "-o", "k.cubin") == 0
    finally:
        ptxas.find_ptxas.cache_clear()
    assert Path("k.cubin").read_text() == "machine code of -arch=sm_86"


class FakeLinker:
    """The functions of ``cuda.bindings.nvjitlink`` that are called."""

    class nvJitLinkError(Exception):
        pass

    class InputType:
        PTX = 2

    def __init__(self, log=b""):
        self.calls, self.log = [], log

    def create(self, count, options):
        self.calls.append(("create", count, options))
        return 7

    def add_data(self, handle, kind, data, size, name):
        if self.log:
            raise self.nvJitLinkError("PTX_COMPILE")
        assert (handle, kind, size) == (7, 2, len(data))
        self.data = data

    def complete(self, handle):
        self.calls.append("complete")

    def get_linked_cubin_size(self, handle):
        return len(self.data) + 4

    def get_linked_cubin(self, handle, code):
        code[:] = b"\x7fELF" + self.data

    def get_error_log_size(self, handle):
        return len(self.log) + 1

    def get_error_log(self, handle, log):
        log[:-1] = self.log

    def destroy(self, handle):
        self.calls.append("destroy")


def test_nvjitlink_is_asked_where_there_is_no_ptxas(folder, no_ptxas, monkeypatch):
    linker = FakeLinker()
    monkeypatch.setattr(cubin, "find_linker", lambda: linker)
    assert call("compile", "user_package.blas:declared", "-a", "sm_90", "-o", "k.cubin") == 0
    assert Path("k.cubin").read_bytes().startswith(b"\x7fELF//\n// Generated by LLVM")
    assert linker.calls == [("create", 1, ["-arch=sm_90"]), "complete", "destroy"]


def test_what_nvjitlink_refuses_is_told(folder, no_ptxas, monkeypatch, capsys):
    linker = FakeLinker(b"line 5: no such instruction")
    monkeypatch.setattr(cubin, "find_linker", lambda: linker)
    shown = refusal(capsys, "user_package.blas:declared", "-a", "sm_90", "-o", "k.cubin")
    assert "nvJitLink refuses the PTX for sm_90: line 5" in shown
    assert linker.calls[-1] == "destroy"
    assert not Path("k.cubin").exists()


def test_without_ptxas_and_nvjitlink_the_remedy_is_told(folder, no_ptxas, monkeypatch, capsys):
    monkeypatch.setattr(cubin, "find_linker", lambda: None)
    shown = refusal(capsys, "user_package.blas:declared", "-o", "k.cubin")
    assert "neither was found" in shown
    assert "pip install nvidia-cuda-nvcc" in shown
    assert not Path("k.cubin").exists()


def test_a_fat_binary_has_code_for_each_architecture_and_ptx(folder, tmp_path):
    made = []
    for place in (Path("one"), tmp_path / "two"):
        place.mkdir()
        path = place / "k.fatbin"
        archs = ("-a", "sm_90,80", "--arch", "sm_120", "-a", "9.0")
        assert call("compile", "user_package.blas:declared", *archs, "-o", path) == 0
        made.append({each.name: each.read_bytes() for each in place.iterdir()})
    assert made[0] == made[1]
    images = read_fatbin(made[0]["k.fatbin"], "k")
    assert [(each.form, each.number) for each in images] == [
        ("cubin", 80),
        ("cubin", 90),
        ("cubin", 120),
        ("PTX", 120),
    ]
    for image in images[:3]:
        archs = ("-a", f"sm_{image.number}", "-o", "k.cubin")
        assert call("compile", "user_package.blas:declared", *archs) == 0
        assert image.contents == Path("k.cubin").read_bytes()
        found = read_cubin(image.contents, "image")
        assert (found.number, list(found.entries)) == (image.number, ["declared"])
    assert b".visible .entry declared(" in images[3].contents
    report = json.loads(made[0]["k.fatbin.params.json"])
    assert report["arch"] == "sm_90, sm_80, sm_120"
    assert report["files"]["fatbin"] == "k.fatbin"
    assert b"arch        sm_90, sm_80, sm_120\n" in made[0]["k.fatbin.params.txt"]


@pytest.mark.parametrize("arch", ["sm_90", "sm_90a", "sm_120f"])
def test_a_fat_binary_for_one_architecture(folder, arch):
    assert call("compile", "user_package.blas:in_order", "-a", arch, "-o", "k.fatbin") == 0
    images = read_fatbin(Path("k.fatbin").read_bytes(), "k")
    number = int(arch[3:].rstrip("af"))
    assert [(each.form, each.number) for each in images] == [("cubin", number), ("PTX", number)]


def test_without_fatbinary_the_remedy_is_told(folder, monkeypatch, capsys):
    monkeypatch.setattr(fatbin, "find_tool", lambda *_: tools.find_tool("no_such_tool", "pip x"))
    shown = refusal(capsys, "user_package.blas:declared", "-a", "sm_90", "-o", "k.fatbin")
    assert "no_such_tool was not found" in shown
    assert not Path("k.fatbin").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("-o", "blas.py"), "with the suffix '.py'"),
        (("-o", "k"), "--output k.ptx"),
        (("-o", ""), "--output kernel.ptx"),
        (("-o", "k.s", "--target", "cuda"), "cuda: .ptx, .cubin, .fatbin, .ll"),
        (
            ("-a", "sm_80,sm_90"),
            "Standard output takes the code for one architecture. Name one, or",
        ),
        (("-a", "sm_80,sm_90", "-o", "k.cubin"), "or write --output k.fatbin"),
        (("-a", "x86-64-v3", "-a", "x86-64-v4", "-o", "k.s"), "k.s takes the code for one"),
        (("-a", "sm_90,sm_77", "-o", "k.fatbin"), "arch 'sm_77' is unknown. Known architectures"),
        (("-a", "sm_90,sm_60", "-o", "k.fatbin"), "does not know sm_60. It knows sm_75, sm_80, "),
        (("-o", "k.ptx", "--target", "cpu"), "cpu: .s, .ll"),
        (("--member", "items=1"), "declared has no space"),
        (("--block", "64", "-a", "sm_90"), "serves every block. For sm_90"),
        (("--block", "64", "-o", "k.ptx"), "add --target cpu"),
    ],
)
def test_what_cannot_be_written(folder, capsys, arguments, words):
    before = sorted(folder.iterdir())
    assert words in refusal(capsys, "user_package.blas:declared", *arguments)
    assert sorted(folder.iterdir()) == before


def test_a_block_is_taken_where_code_depends_on_it(folder):
    arguments = ("compile", "user_package.blas:declared", "--target", "cpu", "-o", "k.ll")
    assert call(*arguments) == 0
    usual = Path("k.ll").read_text()
    assert call(*arguments, "--block", "7") == 0
    assert Path("k.ll").read_text() == usual, "without a barrier one code serves every block"


@pytest.mark.parametrize(("options", "block"), [((), [256, 1, 1]), (("--block", "64"), [64, 1, 1])])
def test_the_block_that_code_depends_on_is_described(folder, options, block):
    arguments = ("compile", "user_package.blas:in_order", "--target", "cpu", "-o", "k.s")
    assert call(*arguments, *options) == 0
    assert json.loads(Path("k.s.params.json").read_text())["block_dim"] == block
    assert f"block_dim   {tuple(block)}" in Path("k.s.params.txt").read_text()
    assert call("compile", "user_package.blas:declared", "-o", "k.ptx") == 0
    assert json.loads(Path("k.ptx.params.json").read_text())["block_dim"] is None


# ----------------------------------------------------------------------------------------- kernels


def test_the_types_that_nobody_knows_are_asked_for(folder, capsys):
    shown = refusal(capsys, "user_package.blas:plain")
    assert "types of plain(x, out) are not known" in shown
    assert '--signature "float32[::1], float32[::1]"' in shown


@pytest.mark.parametrize(
    "options",
    [
        ("--member", "block=32,2,items=2"),
        ("-m", "items=2", "-m", "block=(32, 2)"),
        ("-m", "items=2", "--block", "32,2"),
    ],
)
def test_a_member_of_a_space_is_compiled(folder, options):
    assert call("compile", "user_package.blas:spaced", *options, "-o", "k.ptx") == 0
    assert "1073741824" in Path("k.ptx").read_text(), "2.0 as float32, which is stored"
    (member,) = json.loads(Path("k.ptx.params.json").read_text())["members"]
    assert member["parameters"] == {"block": [32, 2], "items": 2}
    assert member["block_dim"] == [32, 2, 1]
    assert "block=(32, 2), items=2: block_dim (32, 2, 1)" in Path("k.ptx.params.txt").read_text()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "--member block=32,2,items=1"),
        (("--member", "items=9"), "the space has no member with items=9"),
        (("--member", "items"), "NAME=VALUE"),
        (("--member", "items="), "NAME=VALUE"),
        (("--member", "tile=3"), "no member with tile=3"),
    ],
)
def test_a_member_has_to_be_named(folder, capsys, options, words):
    assert words in refusal(capsys, "user_package.blas:spaced", *options)


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("user_package.nothing:f", "there is no module user_package.nothing"),
        ("nothing_at_all:f", "there is no module nothing_at_all"),
        ("user_package.blas:f", "It has declared, in_order, plain, spaced"),
        ("user_package.broken:f", "No module named 'not_there'"),
        ("user_package.ends:f", "user_package.ends cannot be run: SystemExit: 3"),
        ("user_package/ends.py:f", "ends.py cannot be run: SystemExit: 3"),
    ],
)
def test_what_is_no_kernel(folder, capsys, place, words):
    (folder / "user_package" / "broken.py").write_text("import not_there\n")
    (folder / "user_package" / "ends.py").write_text("raise SystemExit(3)\n")
    assert words in refusal(capsys, place)


def test_an_entry_does_not_take_the_name_of_a_function_that_it_calls(folder):
    Path("named.py").write_text(
        "import math\nimport kerneldsl as kd\n\n@kd.kernel('f8[::1]')\ndef exp(x):\n"
        "    i = kd.grid(1)\n    if i < x.size:\n        x[i] = math.exp(x[i])\n"
    )
    assert call("compile", "named.py:exp", "-o", "k.ll", "--target", "cpu") == 0
    entry = json.loads(Path("k.ll.params.json").read_text())["entry"]
    lines = Path("k.ll").read_text().splitlines()
    made = [line for line in lines if f"@{entry}(" in line and line.startswith("define")]
    assert len(made) == 1
    assert not any(line.startswith("declare") and f"@{entry}(" in line for line in lines)
