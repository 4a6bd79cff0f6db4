"""Files that are refused with one clear line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from weft import formats
from weft.errors import InvalidInput


def assert_refused(
    path: Path,
    content: str | bytes,
    complaint: str,
    reader: Callable[[Path], object] = formats.load,
) -> None:
    """Write a file and read it: the message is one short line that begins with its path."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InvalidInput) as caught:
        reader(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert complaint in message
    assert "\n" not in message
    assert len(message) <= 400
