"""A Griffe extension for the reference of `make site`: section names of docstrings."""

from __future__ import annotations

import re
from typing import Any

import griffe


class Sections(griffe.Extension):
    """Rename sections to the names that Griffe expects.

    Griffe finds doctests only in `Examples:`, and takes the fields of a named tuple, which has no signature, from
    `Attributes:`.
    """

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rename the sections."""
        if obj.docstring is None:
            return
        names = {"Example": "Examples"}
        if isinstance(obj, griffe.Class) and any(str(base) == "NamedTuple" for base in obj.bases):
            names["Args"] = "Attributes"
        for ours, theirs in names.items():
            obj.docstring.value = re.sub(rf"^{ours}:$", f"{theirs}:", obj.docstring.value, flags=re.MULTILINE)
