"""Strict reader of YAML, TOML and JSON: duplicate keys, aliases, tags and deep nesting are errors. `no` is a string."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import date, time
from functools import partial
from math import inf
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
from spark_recmetrics.text import brief_value, printable, writable

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]

Keys = tuple[str | int, ...]
"""Path to a value: keys of mappings and indices of lists."""

LARGEST_FILE = 1 << 20
DEEPEST = 40
MOST_VALUES = 10_000
MOST_ERRORS = 50
_LONGEST_KEY = 80
_SUFFIXES = (".yaml", ".yml", ".json", ".toml")
_MAX_BITS = 1024  # of an integer; the largest double has as many
_YAML = "tag:yaml.org,2002:"

_TOO_MANY = f"expected at most {MOST_VALUES} values"


class _Loader(yaml.SafeLoader):
    """Loader for the core schema of YAML 1.2, a superset of JSON; `SafeLoader` reads YAML 1.1."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    depth = 0
    n_values = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        start = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        # With aliases, a small file could expand to gigabytes.
        if self.check_event(yaml.AliasEvent):
            raise yaml.MarkedYAMLError(problem="aliases (*name) are not supported: repeat the value", problem_mark=start)
        if self.depth > DEEPEST:
            raise yaml.MarkedYAMLError(problem=f"nested deeper than {DEEPEST} levels", problem_mark=start)
        self.n_values += index is not None  # keys have no index
        if self.n_values > MOST_VALUES:
            raise yaml.MarkedYAMLError(problem=_TOO_MANY, problem_mark=start)
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
    """The path to a value as a string, such as `evaluation.metrics[1]` or `inputs.models['v1.2']`."""
    return "".join(map(_step, keys)).removeprefix(".")


def _step(key: str | int) -> str:
    if isinstance(key, int):
        return f"[{key}]"
    cut = key if len(key) <= _LONGEST_KEY else f"{key[: _LONGEST_KEY - 3]}..."
    return f".{cut}" if re.fullmatch(r"[\w-]+", key) else f"[{cut!r}]"


class _YamlError(ValueError):
    """A syntax error, with the attributes of a `JSONDecodeError`."""

    def __init__(self, lineno: int, msg: str | None) -> None:
        super().__init__(msg)
        self.lineno, self.msg = lineno, msg


class Source:
    """The `data` of a file, lines of keys, and problems. Overrides are `key.key=value` with a YAML value, and `as_of`."""

    def __init__(self, path: str | os.PathLike[str], overrides: Sequence[str] = (), as_of: str | None = None) -> None:
        self.name = os.fspath(path)
        self.rejected: set[Keys] = set()
        self.wrong_sections: set[str | int] = set()
        self._places: dict[Keys, int | str] = {(): 0}  # a line of the file, 0 if it is unknown; or the override
        self._problems: list[tuple[int | str, Callable[[], str]]] = []
        self.data = self._parsed()
        if not isinstance(self.data, dict):
            content = "nothing: the file is empty" if self.data is None else brief_value(self.data)
            raise ConfigError(f"{self.name}: expected a mapping of keys to values, found {content}")
        for text in overrides:
            self._override(text, f"--set {masked_override(text)}")
        if as_of is not None:
            self._override(f"as_of={json.dumps(as_of)}", f"--as-of {as_of}")
        self._check_values()

    def _parsed(self) -> Any:
        suffix = Path(self.name).suffix.lower()
        if suffix not in _SUFFIXES:
            raise ConfigError(f"{self.name}: expected a file that ends in {', '.join(_SUFFIXES)}")
        text = self._text()
        try:
            if suffix == ".toml":
                return _with_short_integers(tomllib.loads, text) or None
            if suffix == ".json":
                read = partial(json.loads, object_pairs_hook=_unique_keys)
                try:
                    return _with_short_integers(read, text) if text.strip() else None
                except _RepeatedKeyError:
                    text = text.replace("\t", " ")  # read as YAML, its keys have lines
            node = _compose(text)
            return None if node is None else self._values(node, ())
        except RecursionError as error:
            raise ConfigError(f"{self.name}: nested deeper than {DEEPEST} levels") from error
        except (_YamlError, json.JSONDecodeError) as error:
            raise ConfigError(f"{self.name}:{error.lineno}: {error.msg}") from error
        except ValueError as error:
            raise ConfigError(f"{self.name}: {error}") from error

    def _override(self, text: str, place: str) -> None:
        """Change one value by `key.key=value`, `key[0]=value` or `key['a.b']=value`. The value is parsed as YAML."""
        path, equals, value = text.partition("=")
        steps = list(_STEP.finditer(path))
        if not equals or not steps or "".join(step[0] for step in steps) != path:
            self._problems.append((place, lambda: "expected key.key=value or key[index]=value"))
            return
        keys: Keys = tuple(int(step[2]) if step[2] else step[1] or step[3] for step in steps)
        holder = self._holder(keys, place)
        if holder is None:
            return
        self._places = {other: at for other, at in self._places.items() if other[: len(keys)] != keys} | {keys: place}
        value = value.strip()
        try:
            # Everything but lists, mappings and quoted strings is one scalar, including special characters.
            node = _compose(value) if value[:1] in {"[", "{", '"', "'"} else None
            plain = _Loader("").resolve(yaml.ScalarNode, value, (True, False))  # type: ignore[no-untyped-call]
            holder[keys[-1]] = self._values(node or yaml.ScalarNode(plain, value), keys, place)
        except _YamlError as error:
            self.report(keys, f"{error.msg}: write a string in quotes")

    def _holder(self, keys: Keys, place: str) -> Any:
        """The mapping or list that contains the last key. Missing mappings on the way are created."""
        holder: Any = self.data
        for n, key in enumerate(keys):
            exists = isinstance(holder, list) and isinstance(key, int) and key < len(holder)
            if not exists and not (isinstance(holder, dict) and isinstance(key, str)):
                kind = f"a list of {len(holder)}" if isinstance(holder, list) else brief_value(holder)
                problem = f"{dotted(keys[:n]) or 'the file'} is {kind}: there is no {dotted(keys[: n + 1])}"
                self._problems.append((place, partial(str, problem)))
                return None
            if n < len(keys) - 1:
                if isinstance(holder, dict) and holder.get(key) is None:
                    holder[key] = {} if isinstance(keys[n + 1], str) else None
                    self._places[keys[: n + 1]] = place
                holder = holder[key]
        return holder

    def _check_values(self) -> None:
        """Report Spark settings, credentials, deep nesting and unprintable values. Turn dates of TOML into strings."""
        stack: list[tuple[Any, Keys]] = [(self.data, ())]
        n_values = 0
        while stack:
            value, keys = stack.pop()
            n_values += len(value)
            if n_values > MOST_VALUES:
                raise ConfigError(f"{self.name}: {_TOO_MANY}")
            if len(keys) > DEEPEST:
                raise ConfigError(f"{self.name}: {dotted(keys[:2])}: nested deeper than {DEEPEST} levels")
            for key, item in list(value.items() if isinstance(value, dict) else enumerate(value)):
                path = (*keys, key)
                if isinstance(key, str) and (key == "spark" or key.startswith("spark.")):
                    self.report(
                        path, "Spark settings belong in spark-submit --conf or conf/spark-defaults.conf, not in this file"
                    )
                    del value[key]
                elif problem := _unprintable_problem(key):
                    self.report(path, problem)
                    del value[key]  # pydantic rejects the whole section for it, and checks nothing else there
                elif problem := _credential_problem(keys, key, item) or _unprintable_problem(item):
                    self.reject(path, problem, self._line_of(item) if path not in self._places else None)
                    value[key] = MASK  # no later message shows it
                elif isinstance(item, date | time):
                    value[key] = item.isoformat()
                elif isinstance(item, dict | list):
                    stack.append((item, path))

    def _line_of(self, item: object) -> int | None:
        """The line of a long integer in a JSON or TOML file, whose values have no lines."""
        if not isinstance(item, int) or item.bit_length() > _MOST_PRINTED_BITS:
            return None
        before, found, _ = self._text().partition(str(abs(item))[:_CUT])
        return before.count("\n") + 1 if found else None

    def reject(self, keys: Keys, message: str, place: int | str | None = None) -> None:
        """Report a value that is not parsed further."""
        self.report(keys, message, place)
        self.rejected.add(keys)

    def report(self, keys: Keys, message: str | Callable[[], str], place: int | str | None = None) -> None:
        """Report a problem with a value, or with a missing value. A function makes the message if it is shown."""
        self.wrong_sections.update(keys[:1])
        nearest = keys
        while nearest not in self._places:
            nearest = nearest[:-1]
        text = message if callable(message) else partial(str, message)
        self._problems.append((self._places[nearest] if place is None else place, partial(_with_key, keys, text)))

    def keys_in_file(self, keys: Keys) -> Keys:
        """The longest part of the path that is in the file: `k: 0` is validated as a list, `k[0]`, but its path is `k`."""
        value = self.data
        for n, key in enumerate(keys):
            if not isinstance(value, dict | list):
                return keys[:n]
            value = value.get(key) if isinstance(value, dict) else value[int(key)]
        return keys

    def raise_problems(self) -> None:
        """Raise `ConfigError` with the reported problems, one line each, in the order of the file, if there are any."""
        problems = sorted(self._problems, key=lambda problem: inf if isinstance(problem[0], str) else problem[0])
        lines = []
        for at, message in problems[:MOST_ERRORS]:
            place = at if isinstance(at, str) else f"{self.name}:{at}" if at else self.name
            lines.append(printable("\\n".join(without_password(f"{place}: {message()}").splitlines())))
        if len(problems) > MOST_ERRORS:
            lines.append(f"{self.name}: and {len(problems) - MOST_ERRORS} more errors")
        if lines:
            raise ConfigError("\n".join(lines))

    def _text(self) -> str:
        path = Path(self.name)
        if path.exists() and not path.is_file() and not path.is_dir():  # opening a pipe waits for its writer
            raise ConfigError(f"{self.name}: cannot read the configuration: expected a file, found a pipe or a device")
        try:
            with path.open("rb") as file:
                content = file.read(LARGEST_FILE + 1)
        except (OSError, ValueError) as error:  # ValueError: a null character in the path
            reason = error.strerror if isinstance(error, OSError) else error
            raise ConfigError(f"{self.name}: cannot read the configuration: {reason}") from error
        if len(content) > LARGEST_FILE:
            raise ConfigError(f"{self.name}: expected at most {LARGEST_FILE} bytes of configuration")
        try:
            return content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line, byte = error.object.count(b"\n", 0, error.start) + 1, error.object[error.start]
            raise ConfigError(f"{self.name}:{line}: expected UTF-8, found the byte 0x{byte:02x}") from error

    def _values(self, node: yaml.Node, keys: Keys, place: str | None = None) -> Any:
        line = place or node.start_mark.line + 1
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
                self.reject(keys, f"expected {node.tag.removeprefix(_YAML)}, found {brief_value(node.value)}", line)
        else:
            self.reject(keys, f"the tag {node.tag.replace(_YAML, '!!')} is not supported: write a plain value", line)
        return None

    def _mapping(self, node: yaml.MappingNode, keys: Keys, place: str | None) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key, item in node.value:
            line = place or key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode) or key.tag not in _SCALARS:
                self.report(keys, "expected a plain string as key: write a string with braces in quotes", line)
                continue
            path = (*keys, key.value)  # keys are strings, even if they look like numbers
            if key.value in values:
                self.report(path, "duplicate key" + ("" if place else f", first in line {self._places[path]}"), line)
            self._places[path] = line
            values[key.value] = self._values(item, path, place)
        return values


def _with_key(keys: Keys, text: Callable[[], str]) -> str:
    message = text()
    if keys and message.startswith((f"{keys[-1]}: ", f"{keys[-1]}.")):  # the message names the value, or a part of it
        return f"{dotted(keys)}{message.removeprefix(str(keys[-1]))}"
    return f"{dotted(keys)}: {message}" if keys else message


def _with_short_integers(read: Callable[[str], Any], text: str) -> Any:
    """What `read` returns. Integers with more digits than Python reads are cut, and are still too large for any key."""
    try:
        return read(text)
    except ValueError as error:
        cut = _LONG_INTEGER.sub(lambda digits: digits[0][:_CUT], text)
        if cut == text or isinstance(error, json.JSONDecodeError | tomllib.TOMLDecodeError):
            raise
        return read(cut)


_CUT = 400
_MOST_PRINTED_BITS = 14_000  # of an integer that Python writes as a string: at most 4,300 digits
_LONG_INTEGER = re.compile(rf"(?<![\w.+-])[-+]?[1-9][0-9]{{{_CUT},}}(?![\w.])")


def _credential_problem(keys: Keys, key: str | int, item: object) -> str | None:
    """Why a value may not be in a file, if it is a credential."""
    if isinstance(item, str) and without_password(item) != item:
        return CREDENTIALS_IN_ADDRESS
    if keys[-1:] != ("options",) or not isinstance(item, str | int | float) or not names_credential(str(key)):
        return None
    return "expected a reference to a secret, found its value: write {secret: env:NAME}, and set that environment variable"


def _compose(text: str) -> yaml.Node | None:
    """The nodes of a YAML string. Raises `_YamlError`."""
    try:
        loader = _Loader(text)
        node: yaml.Node | None = loader.get_single_node()
    except yaml.reader.ReaderError as error:
        raise _YamlError(text.count("\n", 0, error.position) + 1, error.reason) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _YamlError(mark.line + 1 if mark else 1, error.problem or error.context) from error
    except (ValueError, OverflowError) as error:  # errors of Python that PyYAML does not catch
        raise _YamlError(loader.line + 1, f"cannot read the value: {error}") from error
    return node


def _unprintable_problem(value: object) -> str | None:
    if isinstance(value, str) and not writable(value):
        return f"expected a string that UTF-8 can encode, found {brief_value(value)}"
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        return f"expected a number that a double can hold, found {brief_value(value)}"
    return None


class _Dumper(yaml.SafeDumper):
    """Quotes strings that a reader of YAML 1.1 or 1.2 would take for another type."""


for _kinds in (yaml.SafeDumper.yaml_implicit_resolvers, _Loader.yaml_implicit_resolvers):
    for _start, _forms in _kinds.items():
        for _tag, _pattern in _forms:
            _Dumper.add_implicit_resolver(_tag, _pattern, [_start])
# Outside double quotes, line breaks would be folded.
_Dumper.add_representer(
    str, lambda dumper, text: dumper.represent_scalar(f"{_YAML}str", text, style=None if text.isprintable() else '"')
)


def as_yaml(value: object) -> str:
    """The value as YAML, which reads back as the same value."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True)


class _RepeatedKeyError(ValueError):
    """A mapping in JSON has a key twice."""


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise _RepeatedKeyError
    return values
