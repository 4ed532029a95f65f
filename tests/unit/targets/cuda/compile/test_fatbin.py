"""Fat binaries: what fatbinary writes is read, and each architecture gets its image."""

from __future__ import annotations

import subprocess

import pytest

import kerneldsl as kd
from kerneldsl.errors import CompileError, DeviceCodeError
from kerneldsl.frontend.linked_code import CodeForm
from targets.cuda.architectures import parse_arch
from targets.cuda.compile.fatbin import choose_image, make_fatbin, read_fatbin
from targets.cuda.compile.ptxas import find_ptxas

_SIGNATURE = "float32, float32[::1]"


@kd.kernel
def scale(a, x):
    i = kd.grid(1)
    if i < x.size:
        x[i] *= a


@pytest.fixture(scope="module")
def made() -> dict[str, tuple[bytes, str]]:
    """The machine code and the PTX for some architectures."""
    return {
        arch: (
            scale.artifact(_SIGNATURE, target="cuda", arch=arch).code("cubin"),
            scale.ptx(_SIGNATURE, arch=arch),
        )
        for arch in ("sm_80", "sm_86", "sm_90", "sm_120")
    }


@pytest.fixture(scope="module")
def data(made) -> bytes:
    return make_fatbin(
        {arch: made[arch][0] for arch in ("sm_90", "sm_80", "sm_86")},
        {arch: made[arch][1] for arch in ("sm_90", "sm_80")},
    )


def test_what_is_written_is_read(data, made):
    images = read_fatbin(data, "k")
    assert [(each.form, each.number) for each in images] == [
        (CodeForm.CUBIN, 80),
        (CodeForm.CUBIN, 86),
        (CodeForm.CUBIN, 90),
        (CodeForm.PTX, 80),
        (CodeForm.PTX, 90),
    ]
    assert [each.contents for each in images[:3]] == [made[f"sm_{n}"][0] for n in (80, 86, 90)]
    assert b".target sm_80" in images[3].contents
    assert not any(each.is_compressed for each in images)


@pytest.mark.parametrize(
    ("arch", "form", "number"),
    [
        ("sm_80", CodeForm.CUBIN, 80),
        ("sm_86", CodeForm.CUBIN, 86),
        ("sm_89", CodeForm.CUBIN, 86),
        ("sm_90a", CodeForm.CUBIN, 90),
        ("sm_100", CodeForm.PTX, 90),
        ("sm_121", CodeForm.PTX, 90),
    ],
)
def test_an_architecture_gets_its_image(data, arch, form, number):
    chosen = choose_image(data, "k", parse_arch(arch))
    assert (chosen.form, chosen.number) == (form, number)


def test_without_code_for_an_architecture_what_there_is_is_listed(data):
    with pytest.raises(DeviceCodeError) as caught:
        choose_image(data, "k.fatbin", parse_arch("sm_75"))
    said = str(caught.value)
    assert "k.fatbin has no code for sm_75" in said
    assert "cubin for sm_80, cubin for sm_86, cubin for sm_90, PTX for sm_80, PTX for sm_90" in said


@pytest.mark.parametrize("mode", ["default", "speed", "size"])
def test_compressed_images_are_recognized(mode, made, tmp_path):
    (tmp_path / "k.cubin").write_bytes(made["sm_90"][0])
    tool = find_ptxas().with_name("fatbinary")
    options = ["--compress-all", f"--compress-mode={mode}"]
    command = [tool, "-64", "--create=k.fatbin", *options, "--image3=kind=elf,sm=90,file=k.cubin"]
    subprocess.run(command, cwd=tmp_path, check=True)
    data = (tmp_path / "k.fatbin").read_bytes()
    (image,) = read_fatbin(data, "k")
    assert image.is_compressed
    with pytest.raises(DeviceCodeError, match=r"cubin for sm_90 \(compressed\)"):
        choose_image(data, "k", parse_arch("sm_90"))


def test_files_that_are_cut_off(data):
    for size in (0, 3, 15, 16, 40, 200, len(data) // 2, len(data) - 1):
        with pytest.raises(DeviceCodeError, match="is not a whole fat binary"):
            read_fatbin(data[:size], "k")
    with pytest.raises(DeviceCodeError, match="is not a whole fat binary"):
        read_fatbin(b"\x7fELF" + data[4:], "k")
    with pytest.raises(DeviceCodeError, match="is not a whole fat binary"):
        read_fatbin(data[:16] + bytes(len(data) - 16), "k")


def test_what_fatbinary_refuses(monkeypatch, tmp_path):
    tool = tmp_path / "fatbinary"
    tool.write_text("#!/bin/sh\necho no such image >&2\nexit 1\n")
    tool.chmod(0o755)
    monkeypatch.setattr("targets.cuda.compile.fatbin.find_tool", lambda *_: tool)
    with pytest.raises(CompileError, match="fatbinary refuses the code: no such image"):
        make_fatbin({"sm_90": b""}, {})


def test_a_module_takes_a_fat_binary(data, tmp_path):
    path = tmp_path / "scale.fatbin"
    path.write_bytes(data)
    for image in (path, data):
        kernel = kd.module(image).kernel("scale", "float32, float32[::1], int64")
        assert kernel.resources(arch="sm_90").registers
        assert "fat binary" in repr(kernel)
        with pytest.raises(kd.SourceUnavailableError, match="is a fat binary, which has no source"):
            kernel.source
        with pytest.raises(DeviceCodeError, match="has no code for sm_75"):
            kernel.resources(arch="sm_75")
