"""How the reference of `make site` reads docstrings."""

from __future__ import annotations

import re
from typing import Any

import griffe


class Sections(griffe.Extension):
    """The names of sections that Griffe knows.

    Our `Example:` is its `Examples:`; by the other name it would not see the doctests in it. The `Args:` of a named tuple are
    its `Attributes:`, since Griffe sees no signature there.
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
