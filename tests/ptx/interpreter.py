"""An interpreter of a few instructions of PTX, by which passes are compared."""

from __future__ import annotations

__all__ = ["RELATIONS", "run_ptx"]

#: Comparisons of ``setp``.
RELATIONS = {
    "eq": lambda one, two: one == two,
    "ne": lambda one, two: one != two,
    "lt": lambda one, two: one < two,
    "le": lambda one, two: one <= two,
    "gt": lambda one, two: one > two,
    "ge": lambda one, two: one >= two,
}


def run_ptx(ptx: str, most_lines: int = 3000) -> dict[str, int] | None:
    """Return registers after a function of integers; ``None`` if it runs for too long."""
    lines = [line.strip() for line in ptx.split("\n")]
    places = {line[:-1]: n for n, line in enumerate(lines) if line.endswith(":")}
    values: dict[str, int] = {}

    def read(text: str) -> int:
        return values[text] if text.startswith("%") else int(text)

    def signed(value: int, bits: int) -> int:
        return (value + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)

    place = lines.index("{") + 1
    while (line := lines[place]) != "ret;":
        place += 1
        most_lines -= 1
        if not most_lines:
            return None
        if not line or line.endswith(":") or line.startswith(".reg"):
            continue
        if line.startswith("@"):
            predicate, line = line.split(None, 1)
            name = predicate.strip("@!")
            if bool(values[name]) == predicate.startswith("@!"):
                continue
        operation, _, rest = line.rstrip(";").partition(" ")
        given_ = [part.strip() for part in rest.split(",")]
        kinds = operation.split(".")
        bits = int(kinds[-1][1:]) if kinds[-1][1:].isdigit() else 0
        match kinds[0]:
            case "bra":
                place = places[given_[0]]
            case "setp":
                numbers = [read(each) % 2**bits for each in given_[1:3]]
                if kinds[-1][0] == "s":
                    numbers = [signed(each, bits) for each in numbers]
                found = RELATIONS[kinds[1]](*numbers)
                if kinds[2] == "and":
                    is_true = bool(values[given_[3].strip("!")])
                    found = found and is_true is not given_[3].startswith("!")
                values[given_[0]] = found
            case "mov":
                values[given_[0]] = read(given_[1]) % 2**bits
            case "cvt":
                value = read(given_[1])
                if kinds[-1] == "s32":
                    value = signed(value, 32)
                values[given_[0]] = value % 2 ** int(kinds[1][1:])
            case "shr":
                value = read(given_[1]) % 2**bits
                if kinds[-1][0] == "s":
                    value = signed(value, bits)
                values[given_[0]] = (value >> read(given_[2])) % 2**bits
            case "not":
                assert kinds[1] == "pred"
                values[given_[0]] = not values[given_[1]]
            case "and" | "or" if kinds[1] == "pred":
                one, two = bool(values[given_[1]]), bool(values[given_[2]])
                values[given_[0]] = (one and two) if kinds[0] == "and" else (one or two)
            case "add":
                values[given_[0]] = (read(given_[1]) + read(given_[2])) % 2**bits
            case "max":
                numbers = [read(each) % 2**bits for each in given_[1:3]]
                if kinds[-1][0] == "s":
                    numbers = [signed(each, bits) for each in numbers]
                values[given_[0]] = max(numbers) % 2**bits
            case "selp":
                values[given_[0]] = read(given_[2 - bool(values[given_[3]])]) % 2**bits
            case "mul":
                values[given_[0]] = (read(given_[1]) * read(given_[2])) % 2**bits
            case "mad":
                product = read(given_[1]) * read(given_[2])
                values[given_[0]] = (product + read(given_[3])) % 2**bits
            case _:
                raise AssertionError(line)
    return values
