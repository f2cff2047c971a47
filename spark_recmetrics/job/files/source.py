"""Strict reading of a YAML, TOML or JSON file: its values, the line of each key, and all that is wrong with it.

Stricter than the languages: a key stands once, YAML's `no` and dates are texts, and there are no aliases, object tags or deep
nesting. What the keys mean is the business of `config`.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import date, time
from pathlib import Path
from typing import Any

import yaml

from spark_recmetrics.errors import ConfigError
from spark_recmetrics.storage.credentials import (
    CREDENTIALS_IN_ADDRESS,
    MASK,
    masked_override,
    names_credential,
    without_password,
)
from spark_recmetrics.text import brief, writable

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]

Keys = tuple[str | int, ...]
"""The way to a value: keys of mappings and indices of lists."""

LARGEST_FILE = 1 << 20
DEEPEST = 40
_WIDEST = 1024  # bits of a whole number: the largest double has as many
_YAML = "tag:yaml.org,2002:"


class _Loader(yaml.SafeLoader):
    """The core values of YAML 1.2, of which JSON is a part; `SafeLoader` alone reads YAML 1.1."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        start = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        # Without aliases a small file cannot grow into a large one.
        if self.check_event(yaml.AliasEvent):
            raise yaml.MarkedYAMLError(problem="aliases (*name) are not read: write the value out", problem_mark=start)
        if self.depth > DEEPEST:
            raise yaml.MarkedYAMLError(problem=f"nested deeper than {DEEPEST} levels", problem_mark=start)
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


_FLOAT = r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
for _kind, _form, _first in (
    ("null", "~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", "true|True|TRUE|false|False|FALSE", [*"tTfF"]),
    ("int", "[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", [*"-+0123456789"]),
    ("float", _FLOAT, [*"-+.0123456789"]),
):
    _Loader.add_implicit_resolver(_YAML + _kind, re.compile(rf"(?:{_form})\Z"), _first)

_SCALARS: Mapping[str, Callable[[str], Any]] = {
    _YAML + "null": lambda _: None,
    _YAML + "bool": lambda text: text.lower() == "true",
    _YAML + "int": lambda text: int(text, {"0o": 8, "0x": 16}.get(text[:2], 10)),
    _YAML + "float": lambda text: float(text.lower().replace(".inf", "inf").replace(".nan", "nan")),
    _YAML + "str": str,
}
_STEP = re.compile(r"(?:^|\.)([^.\[\]]+)|\[([0-9]{1,9})\]|\['([^']*)'\]")


def dotted(keys: Keys) -> str:
    """The keys as one text.

    Example:
        >>> dotted(("evaluation", "metrics", 1)), dotted(("inputs", "models", "v1.2"))
        ('evaluation.metrics[1]', "inputs.models['v1.2']")
    """
    steps = (f"[{k}]" if isinstance(k, int) else f".{k}" if re.fullmatch(r"[\w-]+", k) else f"[{k!r}]" for k in keys)
    return "".join(steps).removeprefix(".")


def shown(value: object) -> str:
    """The value as a message shows it: short, and without what is inside lists and mappings."""
    if value is None or isinstance(value, dict | list):
        return "nothing" if value is None else "a list" if isinstance(value, list) else "a mapping"
    return brief(value)


class Source:
    """What a file says, where each key stands, and what is wrong with it.

    Args:
        path: The file; its suffix tells the language.

    Raises:
        ConfigError: The file cannot be read at all.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.name = os.fspath(path)
        self.refused: set[Keys] = set()
        self._places: dict[Keys, int | str] = {(): 0}  # line of the file, 0 where that is not known; or the override
        self._problems: list[tuple[int | str, str]] = []
        languages = {".yaml": self._yaml, ".yml": self._yaml, ".json": self._json, ".toml": self._toml}
        language = languages.get(Path(self.name).suffix.lower())
        if language is None:
            raise ConfigError(f"{self.name}: expected a file that ends in {', '.join(languages)}")
        try:
            self.data = language(self._text())
        except RecursionError as error:
            raise ConfigError(f"{self.name}: nested deeper than {DEEPEST} levels") from error
        if not isinstance(self.data, dict):
            found = "nothing: the file is empty" if self.data is None else shown(self.data)
            raise ConfigError(f"{self.name}: expected a mapping of keys to values, found {found}")

    def override(self, text: str, place: str | None = None) -> None:
        """Change one value: `key.key=value`, `key[0]=value`, `key['a.b']=value`; the value is read as in YAML."""
        place = place or f"--set {masked_override(text)}"
        path, equals, value = text.partition("=")
        steps = list(_STEP.finditer(path))
        if not equals or not steps or "".join(step[0] for step in steps) != path:
            self._problems.append((place, "expected key.key=value or key[index]=value"))
            return
        keys: Keys = tuple(int(step[2]) if step[2] else step[1] or step[3] for step in steps)
        holder = self._holder(keys, place)
        if holder is None:
            return
        self._places = {other: at for other, at in self._places.items() if other[: len(keys)] != keys} | {keys: place}
        value = value.strip()
        try:
            # Anything but lists, mappings and quoted texts is one scalar, whatever characters are in it.
            node = _compose(value) if value[:1] in {"[", "{", '"', "'"} else None
            plain = _Loader("").resolve(yaml.ScalarNode, value, (True, False))  # type: ignore[no-untyped-call]
            holder[keys[-1]] = self._values(node or yaml.ScalarNode(plain, value), keys, place)
        except ValueError as error:
            self.report(keys, f"{error.args[1]}: write a text in quotes")

    def _holder(self, keys: Keys, place: str) -> Any:
        """The mapping or list whose item the last key is; mappings on the way to it are made."""
        holder: Any = self.data
        for n, key in enumerate(keys):
            there = isinstance(holder, list) and isinstance(key, int) and key < len(holder)
            if not there and not (isinstance(holder, dict) and isinstance(key, str)):
                what = f"a list of {len(holder)}" if isinstance(holder, list) else shown(holder)
                told = f"{dotted(keys[:n]) or 'the file'} is {what}: there is no {dotted(keys[: n + 1])}"
                self._problems.append((place, told))
                return None
            if n < len(keys) - 1:
                if isinstance(holder, dict) and holder.get(key) is None:
                    holder[key] = {} if isinstance(keys[n + 1], str) else None
                    self._places[keys[: n + 1]] = place
                holder = holder[key]
        return holder

    def screen(self) -> None:
        """Refuse Spark settings, credentials, deep nesting, and what cannot be written; turn dates of TOML into texts."""
        waiting: list[tuple[Any, Keys]] = [(self.data, ())]
        while waiting:
            value, keys = waiting.pop()
            if len(keys) > DEEPEST:
                raise ConfigError(f"{self.name}: {dotted(keys[:2])}: nested deeper than {DEEPEST} levels")
            for key, item in list(value.items() if isinstance(value, dict) else enumerate(value)):
                here = (*keys, key)
                if isinstance(key, str) and (key == "spark" or key.startswith("spark.")):
                    self.report(
                        here, "Spark settings belong to spark-submit --conf or conf/spark-defaults.conf, not into this file"
                    )
                    del value[key]
                elif refusal := _credential(keys, key, item):
                    self.report(here, refusal)
                    self.refused.add(here)
                    value[key] = MASK  # no later message shows it
                elif told := _unwritable(key) or _unwritable(item):
                    self.report(here, told)
                    self.refused.add(here)
                    value[key] = None
                elif isinstance(item, date | time):
                    value[key] = item.isoformat()
                elif isinstance(item, dict | list):
                    waiting.append((item, here))

    def report(self, keys: Keys, message: str, place: int | str | None = None) -> None:
        """Note that something is wrong with the value there, which may be a missing one."""
        nearest = keys
        while nearest not in self._places:
            nearest = nearest[:-1]
        where = dotted(keys)
        # A message that begins with the last key says more exactly which part of the value it means.
        inside = keys and message.startswith(f"{keys[-1]}.")
        told = f"{where}{message.removeprefix(str(keys[-1]))}" if inside else f"{where}: {message}" if keys else message
        self._problems.append((self._places[nearest] if place is None else place, told))

    def written(self, keys: Keys) -> Keys:
        """The keys as far as the file goes: `k: 0` is read as a list of one, and yet its place is `k` and not `k[0]`."""
        value = self.data
        for n, key in enumerate(keys):
            if not isinstance(value, dict | list):
                return keys[:n]
            value = value.get(key) if isinstance(value, dict) else value[int(key)]
        return keys

    def error(self) -> ConfigError | None:
        """Everything reported so far, a line each, in the order of the file; None if there is nothing."""
        order = sorted(self._problems, key=lambda told: (isinstance(told[0], str), told[0] if isinstance(told[0], int) else 0))
        lines = [f"{at if isinstance(at, str) else f'{self.name}:{at}' if at else self.name}: {told}" for at, told in order]
        return ConfigError("\n".join("\\n".join(without_password(line).splitlines()) for line in lines)) if lines else None

    def _text(self) -> str:
        try:
            with Path(self.name).open("rb") as file:
                content = file.read(LARGEST_FILE + 1)
        except (OSError, ValueError) as error:  # ValueError: a null character in the path
            reason = error.strerror if isinstance(error, OSError) else error
            raise ConfigError(f"{self.name}: cannot read the configuration: {reason}") from error
        if len(content) > LARGEST_FILE:
            raise ConfigError(f"{self.name}: expected at most {LARGEST_FILE} bytes of configuration")
        try:
            return content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line, byte = content.count(b"\n", 0, error.start) + 1, content[error.start]
            raise ConfigError(f"{self.name}:{line}: expected UTF-8, found the byte 0x{byte:02x}") from error

    def _json(self, text: str) -> Any:
        try:
            return json.loads(text, object_pairs_hook=_once) if text.strip() else None
        except json.JSONDecodeError as error:
            raise ConfigError(f"{self.name}:{error.lineno}: {error.msg}") from error
        except ValueError as error:
            raise ConfigError(f"{self.name}: {error}") from error

    def _toml(self, text: str) -> Any:
        try:
            return tomllib.loads(text) or None
        except ValueError as error:
            raise ConfigError(f"{self.name}: {error}") from error

    def _yaml(self, text: str) -> Any:
        try:
            node = _compose(text)
        except ValueError as error:
            line, problem = error.args
            raise ConfigError(f"{self.name}:{line}: {problem}") from error
        return None if node is None else self._values(node, ())

    def _values(self, node: yaml.Node, keys: Keys, place: str | None = None) -> Any:
        where = place or node.start_mark.line + 1
        if isinstance(node, yaml.MappingNode) and node.tag == _YAML + "map":
            return self._mapping(node, keys, place)
        if isinstance(node, yaml.SequenceNode) and node.tag == _YAML + "seq":
            lines = {(*keys, index): place or item.start_mark.line + 1 for index, item in enumerate(node.value)}
            self._places.update(lines)
            return [self._values(item, (*keys, index), place) for index, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode) and node.tag in _SCALARS:
            try:
                return _SCALARS[node.tag](node.value)
            except ValueError:
                self.report(keys, f"expected {node.tag.removeprefix(_YAML)}, found {shown(node.value)}", where)
        else:
            self.report(keys, f"the tag {node.tag.replace(_YAML, '!!')} is refused: write a plain value", where)
        self.refused.add(keys)
        return None

    def _mapping(self, node: yaml.MappingNode, keys: Keys, place: str | None) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, item in node.value:
            where = place or key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode) or key.tag not in _SCALARS:
                self.report(keys, "expected a plain text as key", where)
                continue
            here = (*keys, key.value)  # a key is the text that is written, even where it looks like a number
            if key.value in found:
                self.report(here, "the key is given twice" + ("" if place else f", first in line {self._places[here]}"), where)
            self._places[here] = where
            found[key.value] = self._values(item, here, place)
        return found


def _credential(keys: Keys, key: str | int, item: object) -> str | None:
    """Why a value may not stand in a file, if it is a credential."""
    if isinstance(item, str) and without_password(item) != item:
        return CREDENTIALS_IN_ADDRESS
    if keys[-1:] != ("options",) or not isinstance(item, str | int | float) or not names_credential(str(key)):
        return None
    return "expected a reference to the value, found the value itself: write {secret: env:NAME}, and set that variable"


def _compose(text: str) -> yaml.Node | None:
    """The nodes of a YAML text; raises ValueError(line, problem)."""
    line = 0
    try:
        loader = _Loader(text)
        try:
            node: yaml.Node | None = loader.get_single_node()
        finally:
            line = loader.line + 1
    except yaml.reader.ReaderError as error:
        raise ValueError(text.count("\n", 0, error.position) + 1, error.reason) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise ValueError(mark.line + 1 if mark else 1, error.problem or error.context) from error
    except (ValueError, OverflowError) as error:  # PyYAML lets those of Python through
        raise ValueError(line, f"expected an escape or a number that can be read, found none: {error}") from error
    return node


def _unwritable(value: object) -> str | None:
    """What is wrong with a text or a number that no message, table or other process could be given."""
    if isinstance(value, str) and not writable(value):
        return f"expected a non-blank string without control characters, found {shown(value)}"
    if isinstance(value, int) and value.bit_length() > _WIDEST:
        return f"expected a number that a double can hold, found {shown(value)}"
    return None


class _Dumper(yaml.SafeDumper):
    """Quotes each text that readers of YAML 1.2, or those of 1.1, would take for something else."""


for _kinds in (yaml.SafeDumper.yaml_implicit_resolvers, _Loader.yaml_implicit_resolvers):
    for _start, _forms in _kinds.items():
        for _tag, _pattern in _forms:
            _Dumper.add_implicit_resolver(_tag, _pattern, [_start])
# A line break of any kind would be folded outside double quotes.
_Dumper.add_representer(
    str, lambda dumper, text: dumper.represent_scalar(f"{_YAML}str", text, style=None if text.isprintable() else '"')
)


def as_yaml(value: object) -> str:
    """The value as YAML that is read back as the same value.

    Example:
        >>> print(as_yaml({"model_name": "1e3"}), end="")
        model_name: '1e3'
    """
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    twice = [key for key, n in Counter(key for key, _ in pairs).items() if n > 1]
    if twice:
        raise ValueError(f"the key {shown(twice[0])} is given twice in one mapping")
    return dict(pairs)
