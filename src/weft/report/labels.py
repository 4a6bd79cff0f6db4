"""Names of users as labels: shortened, and safe inside HTML and XML."""

from __future__ import annotations

import html
import re

from weft.errors import visible

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


def escaped(text: object) -> str:
    r"""Escape text of a user for HTML and XML, in elements and quoted attributes.

    Examples
    --------
    >>> escaped("</b>\x00")
    '&lt;/b&gt;\ufffd'
    """
    return html.escape(_CONTROL.sub("\ufffd", str(text)), quote=True)


def shortened(text: str, size: int) -> str:
    """Shorten a label to a line of `size` characters, with an ellipsis in the middle.

    Examples
    --------
    >>> shortened("mProject_00000042", 11)
    'mProj…00042'
    """
    text = visible(" ".join(text.split()))
    if len(text) <= size:
        return text
    tail = (size - 1) // 2
    return text[: size - 1 - tail] + "…" + text[len(text) - tail :]
