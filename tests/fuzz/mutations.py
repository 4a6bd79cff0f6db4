"""Changes of a sound file: of its values where its structure is known, and of its bytes."""

from __future__ import annotations

import io
import json
import random
import re
import zipfile
from typing import Any

import numpy as np

ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**53, 2**63, -(2**63), 10**400, 0.5, -0.0, 1e-320, 1e308,
    -1e308, "", "inf", "-inf", "nan", "\ud800", "\x1b[31m", "\u202e", "x" * 500, "1e999", "5 us",
    "<script>alert(1)</script>", [], {}, [[]], [None], [1, [2]], [[1], [2, 3]], {"a": {}},
    [-1], [1e308, 1e308], ["a", "a"], [2**62] * 3,
)  # fmt: skip
ODD_TEXTS = (
    "nan", "inf", "-inf", "-1", "0", "1e999", "0x" + "f" * 5000, "9" * 5000, "[]", "{}", "true",
    '""', '"\\u001b[31m"', "[[1]]", "[1, 'a']", "{a = 1}", '"1e300 GB"', '"-5 s"', "1e308",
    "1e-320", "2147483647", "1979-05-27", "'x y'", '"5 furlongs"', "[5]", "{good = 5}",
)  # fmt: skip
ODD_ARRAYS = (
    np.zeros(0),
    np.array(np.nan),
    np.array([np.inf, -1.0]),
    np.array([-1]),
    np.array([2**63], np.uint64),
    np.array([[1.0]]),
    np.array([True]),
    np.array("x"),
    np.array(["a", ""]),
    np.array([0x110000, 0xD800], np.uint32).view("<U1"),
    np.array([0xF0000000], np.uint32).view("<U1").reshape(()),
    np.array([1 + 2j]),
    np.array([b"x"]),
    np.array(["2020-01-01"], "M8[D]"),
)
ODD_BYTES = (b"\x00", b"\xff", b"\xf0", b'"', b"{", b"[", b"]", b"}", b"\n", b"-", b"9", b"e", b";")
_VALUE = re.compile(rb"(?<== )[^\n]+")


def mutated(content: bytes, suffix: str, rng: random.Random) -> bytes:
    """Return the content with one to three changes."""
    for _ in range(rng.randint(1, 3)):
        way = _of_values(suffix) if rng.random() < 0.6 else _change_bytes
        content = way(content, rng)
    return content


def _of_values(suffix: str) -> Any:
    known = {
        ".json": _change_json,
        ".npz": _change_npz,
        ".safetensors": _change_safetensors,
        ".toml": _change_toml,
    }
    return known.get(suffix, _change_words)


def _change_json(content: bytes, rng: random.Random) -> bytes:
    try:
        document = json.loads(content)
    except ValueError:
        return _change_bytes(content, rng)
    places: list[tuple[Any, Any]] = []
    waiting = [document]
    for part in waiting:  # grows while it is read
        if isinstance(part, (dict, list)):
            keys = part if isinstance(part, dict) else range(len(part))
            places += [(part, key) for key in keys]
            waiting += [part[key] for key in keys]
    if not places:
        return _change_bytes(content, rng)
    part, key = rng.choice(places)
    change = rng.random()
    if change < 0.7:
        part[key] = rng.choice(ODD_VALUES)
    elif change < 0.85:
        del part[key]
    elif isinstance(part, dict):
        part[str(key) + rng.choice(("x", "\ud800", "\x1b"))] = part.pop(key)
    else:
        part.append(part[key])
    return json.dumps(document, ensure_ascii=rng.random() < 0.8).encode("utf-8", "surrogatepass")


def _change_npz(content: bytes, rng: random.Random) -> bytes:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
    except Exception:  # noqa: BLE001  # damaged by an earlier change
        return _change_bytes(content, rng)
    if not members:
        return _change_bytes(content, rng)
    name = rng.choice(sorted(members))
    change = rng.random()
    if change < 0.5:
        made = io.BytesIO()
        np.lib.format.write_array(made, rng.choice(ODD_ARRAYS), allow_pickle=False)
        members[name] = made.getvalue()
    elif change < 0.8:
        members[name] = _change_bytes(members[name], rng)
    elif change < 0.9:
        members[rng.choice(("x", "workflow/", "../a", "format/")) + name] = members.pop(name)
    else:
        del members[name]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for member, data in members.items():
            archive.writestr(zipfile.ZipInfo(member), data)
    return packed.getvalue()


def _change_safetensors(content: bytes, rng: random.Random) -> bytes:
    """Change the header (its length in 8 bytes, then JSON), with the right length or the old."""
    end = 8 + int.from_bytes(content[:8], "little")
    if not 8 < end <= len(content):
        return _change_bytes(content, rng)
    header = _change_json(content[8:end], rng)
    length = len(header).to_bytes(8, "little") if rng.random() < 0.9 else content[:8]
    return length + header + content[end:]


def _change_toml(content: bytes, rng: random.Random) -> bytes:
    places = list(_VALUE.finditer(content))
    if not places:
        return _change_bytes(content, rng)
    place = rng.choice(places)
    return content[: place.start()] + rng.choice(ODD_TEXTS).encode() + content[place.end() :]


def _change_words(content: bytes, rng: random.Random) -> bytes:
    places = list(re.finditer(rb"[\w.]+", content))
    if not places:
        return _change_bytes(content, rng)
    place = rng.choice(places)
    return content[: place.start()] + rng.choice(ODD_TEXTS).encode() + content[place.end() :]


def _change_bytes(content: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(content) + 1)
    end = min(len(content), at + rng.choice((1, 1, 2, 8, 60)))
    change = rng.randrange(5)
    if change == 0:
        return content[:at] + content[end:]
    if change == 1:
        return content[:at] + rng.choice(ODD_BYTES) * rng.choice((1, 1, 3, 300)) + content[at:]
    if change == 2:
        return content[:at] + bytes(rng.randrange(256) for _ in range(end - at)) + content[end:]
    if change == 3:
        return content[:end] + content[at:]
    return content[:at]
