"""``kerneldsl cache …``: inspect and change the cache of compiled code."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kerneldsl.tools.cli import output
from kerneldsl.tools.cli.output import print_json, print_table
from kerneldsl.utilities.formatting import format_bytes, format_count, format_duration

if TYPE_CHECKING:
    from kerneldsl.cache.inventory import EntryInfo
    from kerneldsl.cache.key import Key
    from kerneldsl.contract import Compiler, Specialization
    from kerneldsl.kernels.kernel import Kernel

__all__ = ["make_cache_app"]

_EXIT_DAMAGED = 1
_SHOWN_DIGITS = 12
#: Parts of a key that a signature does not show, on targets that plan launches.
_PLANNED = ("mapping", "promises")
_File = Annotated[Path, typer.Argument(help="An archive of entries.")]


def make_cache_app() -> typer.Typer:
    """Make the commands below ``kerneldsl cache``."""
    app = typer.Typer(
        cls=output.CommandGroup,
        help="List, remove and move cached kernels.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    commands: dict[str, Callable[..., None]] = {
        "info": _info,
        "list": _list,
        "show": _show,
        "verify": _verify,
        "clear": _clear,
        "prune": _prune,
        "export": _export,
        "import": _import,
        "explain-miss": _explain_miss,
    }
    for name, command in commands.items():
        app.command(name)(command)
    return app


def _info(as_json: output.JsonOption = False) -> None:
    """Show the folder, size and settings of the cache."""
    from kerneldsl import cache
    from kerneldsl.cache.settings import read_settings, read_size

    settings = read_settings()
    entries = cache.entries()
    own = [entry for entry in entries if not entry.is_site]
    total, most = sum(entry.nbytes for entry in own), read_size(settings.size)
    found = {
        "is_on": cache.is_on(),
        "folder": str(cache.path()),
        "entries": len(own),
        "bytes": total,
        "max_bytes": most,
        "site": settings.site or None,
        "site_entries": len(entries) - len(own),
        "is_signed": bool(settings.key_file),
        "is_shared": settings.is_shared,
    }
    if as_json:
        print_json(found)
        return
    rows: list[tuple[str, object]] = [
        ("on", "yes" if found["is_on"] else "no"),
        ("folder", found["folder"]),
        ("entries", f"{len(own)}, {format_bytes(total)} of {format_bytes(most)}"),
        ("site's folder", found["site"] and f"{found['site']}, {found['site_entries']} entries"),
        ("signed", "yes" if found["is_signed"] else "no"),
        ("shared with others", "yes" if found["is_shared"] else "no"),
    ]
    print_table(("cache", ""), rows)


def _list(as_json: output.JsonOption = False) -> None:
    """List the entries, the most recently used first."""
    from kerneldsl import cache

    entries = cache.entries()
    if as_json:
        print_json({"entries": [_described(entry) for entry in entries]})
        return
    now = time.time()
    print_table(
        ("key", "kernel", "for", "signature", "size", "used"),
        [
            (
                entry.digest[:_SHOWN_DIGITS],
                _made(entry).get("kernel"),
                _machine(entry),
                entry.components.get("signature"),
                format_bytes(entry.nbytes),
                f"{format_duration(max(0.0, now - entry.used_s) * 1e9)} ago"
                + (", site" if entry.is_site else ""),
            )
            for entry in entries
        ],
        fixed=("key",),
    )


def _show(
    key: Annotated[str, typer.Argument(help="The key, or its first characters.")],
    section: Annotated[
        str | None, typer.Option("--section", "-s", help="Print the contents of this section.")
    ] = None,
    as_json: output.JsonOption = False,
) -> None:
    """Show one entry: its whole key, and its contents."""
    from kerneldsl import cache

    matching = [entry for entry in cache.entries() if entry.digest.startswith(key.lower())]
    if len({entry.digest for entry in matching}) != 1:
        _refuse_key(key, len(matching))
    entry = matching[0]
    if section is not None:
        _print_section(entry, section, as_json)
    elif as_json:
        print_json(_described(entry))
    else:
        print_table(("part of the key", "value"), sorted(entry.components.items()))
        print()
        print_table(("section", "size"), [(n, format_bytes(s)) for n, s in entry.sections.items()])
        print(f"\n{entry.path}")


def _refuse_key(key: str, count: int) -> None:
    from kerneldsl.errors import ArgumentValueError

    raise ArgumentValueError(
        f"{count or 'no'} entries begin with {key!r}",
        value=key,
        limit="It must be one entry's key, or how it begins",
        remedy="kerneldsl cache list shows them",
    )


def _print_section(entry: EntryInfo, section: str, as_json: bool) -> None:
    from kerneldsl.errors import ArgumentValueError

    sections = _read(entry)
    if section not in sections:
        raise ArgumentValueError(
            f"the entry has no section {section!r}",
            value=section,
            limit=f"It has {', '.join(sections)}",
        )
    data = sections[section]
    if as_json:
        # Machine code is no text: of it the size alone is shown.
        text = data.decode() if _is_text(data) else None
        print_json({"key": entry.digest, "section": section, "bytes": len(data), "text": text})
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(data)


def _is_text(data: bytes) -> bool:
    try:
        return b"\0" not in data and data.decode() is not None
    except UnicodeDecodeError:
        return False


def _verify(as_json: output.JsonOption = False) -> None:
    """Read every entry, and quarantine damaged ones; if there are any, the exit status is 1."""
    from kerneldsl import cache

    found = cache.verify()
    if as_json:
        print_json(found.to_dict())
    else:
        print(found)
    if found.refused:
        raise typer.Exit(_EXIT_DAMAGED)


def _clear(as_json: output.JsonOption = False) -> None:
    """Remove every entry of the user's folder."""
    from kerneldsl import cache

    _print_count("removed", cache.clear(), as_json)


def _print_count(done: str, count: int, as_json: bool, **others: Any) -> None:
    """Print the number of entries that were removed or moved, and the target."""
    if as_json:
        print_json({done: count, **others})
        return
    where = "".join(f" to {place}" for place in others.values())
    print(f"{format_count(count, 'entry', 'entries')} {done}{where}")


def _prune(
    size: Annotated[
        str | None,
        typer.Argument(help="The size to keep, such as 200M; by default KERNELDSL_CACHE_SIZE."),
    ] = None,
    as_json: output.JsonOption = False,
) -> None:
    """Remove the least recently used entries, until the others fit."""
    from kerneldsl import cache
    from kerneldsl.cache.settings import read_size

    max_bytes = None if size is None else read_size(size, "SIZE")
    _print_count("removed", cache.prune(max_bytes), as_json)


def _export(file: _File, as_json: output.JsonOption = False) -> None:
    """Write all entries to one file, for another machine."""
    from kerneldsl import cache

    _print_count("written", cache.export(file), as_json, file=str(file))


def _import(file: _File, as_json: output.JsonOption = False) -> None:
    """Import the entries of a file. Import only files that you trust: kernels run their code."""
    from kerneldsl import cache

    found = cache.import_(file)
    if as_json:
        print_json(found.to_dict())
        return
    refused = ", ".join(f"{count} {reason}" for reason, count in sorted(found.refused.items()))
    shown = f"{format_count(found.imported, 'entry', 'entries')} imported"
    if found.evicted:
        shown += f"; {found.evicted} removed, so that the cache fits into KERNELDSL_CACHE_SIZE"
    print(shown + (f"; refused: {refused}" if refused else ""))


def _explain_miss(
    kernel: output.KernelArgument,
    signature: output.SignatureOption = None,
    target: output.TargetOption = None,
    arch: output.ArchOption = None,
    forall: Annotated[int | None, typer.Option("--forall", help="Rank of the extent.")] = None,
    extent: Annotated[
        str | None,
        typer.Option(
            "--extent",
            "-e",
            help="The extent of forall, such as 1048576 or 1080,1920: plan the launch, and "
            "compare also its mapping of indices to threads.",
        ),
    ] = None,
    block: Annotated[
        str | None, typer.Option("--block", help="Block, such as 256 or 32,8.")
    ] = None,
    member: output.MemberOption = None,
    as_json: output.JsonOption = False,
) -> None:
    """Show the differences between the key of a kernel and the nearest entry."""
    from kerneldsl import cache
    from kerneldsl.cache.inventory import find_nearest
    from kerneldsl.placement.registry import target_writing
    from kerneldsl.tools.cli.find import choose_member, find_kernel, read_dims, signature_arguments

    entries = cache.entries()
    found = find_kernel(kernel)
    block_dim = None if block is None else read_dims(block, "--block")
    if member or extent is None:  # else the launch is planned, and the planner chooses the member
        found = choose_member(found, member or (), block_dim)
    args = signature_arguments(found, signature)
    target = target or target_writing("ptx")
    left_out: tuple[str, ...] = ()
    if extent is None:
        maker, one = found.specialization(
            *args, forall=forall, block=block_dim, arch=arch, target=target
        )
        specializations: tuple[Specialization, ...] = (one,)
        left_out = _PLANNED if maker.maps_elements else ()
    else:
        with _disk_cache_off():
            maker, specializations = found.launched(
                *args,
                extent=read_dims(extent, "--extent"),
                block=block_dim,
                arch=arch,
                target=target,
            )
    keys = [_key_of(found, maker, each) for each in specializations]
    compared = [(key, find_nearest(key, entries, left_out)) for key in keys]
    key, nearest = min(compared, key=lambda pair: len(pair[1].differences) if pair[1] else 0)
    if as_json:
        print_json(
            {"key": key.digest, "nearest": nearest and nearest.to_dict(), "left_out": left_out}
        )
        return
    if nearest is None:
        print("The cache is empty.")
        return
    if not nearest.differences:
        print(f"There is an entry: {nearest.digest}")
    else:
        print(f"Nearest is {nearest.digest[:_SHOWN_DIGITS]}, which differs in:\n")
        rows = [(d.component, d.wanted, d.found) for d in nearest.differences]
        print_table(("part of the key", "wanted", "in the entry"), rows)
    if left_out:
        print(
            f"\nNot compared: {' and '.join(left_out)}, which depend on the launch. --extent plans "
            "one, and compares them."
        )


@contextmanager
def _disk_cache_off() -> Iterator[None]:
    """Turn the disk cache off: the command compiles, but stores nothing."""
    before = os.environ.get("KERNELDSL_CACHE")
    os.environ["KERNELDSL_CACHE"] = "off"
    try:
        yield
    finally:
        del os.environ["KERNELDSL_CACHE"]
        if before is not None:
            os.environ["KERNELDSL_CACHE"] = before


def _key_of(kernel: Kernel[..., Any], maker: Compiler, specialization: Specialization) -> Key:
    from kerneldsl.cache.reasons import UncacheableError
    from kerneldsl.errors import CacheError
    from kerneldsl.launch.artifact import find_key

    try:
        return find_key(maker, specialization)
    except UncacheableError as error:
        raise CacheError(
            f"code of {kernel.__qualname__} cannot be cached: {error}",
            value=kernel.__qualname__,
            remedy="docs/cache.md lists what is not cached",
        ) from error


def _described(entry: EntryInfo) -> dict[str, Any]:
    return {**entry.to_dict(), "made": _made(entry)}


def _read(entry: EntryInfo) -> dict[str, bytes]:
    from kerneldsl.cache.entry import MAX_ENTRY_BYTES, decode
    from kerneldsl.cache.reasons import BadEntry
    from kerneldsl.utilities.untrusted import read_plain_file

    try:
        contents, _ = read_plain_file(entry.path, MAX_ENTRY_BYTES)
        return dict(decode(contents).sections)
    except (OSError, BadEntry):  # evicted or replaced since it was listed
        return {}


def _made(entry: EntryInfo) -> dict[str, Any]:
    """Return the notes about the kernel from its compilation."""
    from kerneldsl.utilities.untrusted import parse_json

    try:
        made = parse_json(_read(entry).get("made", b"{}"))
    except ValueError:
        return {}
    return made if isinstance(made, dict) else {}


def _machine(entry: EntryInfo) -> str:
    parts = entry.components
    return parts.get("architecture") or parts.get("processor") or parts.get("target", "")
