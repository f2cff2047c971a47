"""Secrets: references in a configuration, their values, and masking these in everything that a run prints.

A configuration holds only references, and so do its printed form and its hash.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from urllib.parse import quote, quote_plus

from spark_recmetrics.errors import ConfigError, reason_of

MASK = "***"
"""Replaces a secret in messages."""

CREDENTIALS_IN_ADDRESS = (
    "expected an address without a password, found one (not shown): set the password as an option {secret: env:NAME} of the "
    "table or in Spark's configuration, and for MLflow as MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
)
"""Message for an address that contains a password."""


@dataclass(frozen=True)
class Secret:
    """A reference to a secret, whose value `Vault` reads: a variable of the driver's environment, or a Databricks secret."""

    secret: str  # env:NAME or scope/key

    def __post_init__(self) -> None:
        if not isinstance(self.secret, str) or not re.fullmatch(r"env:[A-Za-z_]\w*|[\w.@-]+/[\w.@-]+", self.secret, re.ASCII):
            kind = "another string" if isinstance(self.secret, str) else type(self.secret).__name__
            # It may be the secret itself.
            raise ConfigError(f"expected env:NAME or scope/key, found {kind}, which is not shown here")


def without_password(text: str) -> str:
    """The text with `***` in place of the password in every address, such as `s3a://ann:***@bucket/truth`."""
    return _PASSWORD.sub(r"\1\2***", text)


# A password before a host may contain slashes; only a path may follow a port. The parameter names are those of JDBC and of
# signed object store URLs.
_PASSWORD = re.compile(
    r"(://[^/\s:@?#]*:)(?!\d+(?:[/?#]|$)|\*\*\*@)\S+(?=@)"
    r"|([?&;](?:[\w.-]*(?:password|passwd|pwd|secret|token|signature)|sig)=)(?!\*\*\*)[^&;\s'\"]+",
    re.IGNORECASE,
)

_NAMED = re.compile(
    r"password|passwd|passphrase|secret|token|credential|signature|(?:private|account|api|storage)[._-]?key", re.IGNORECASE
)

# Class names, addresses and files that belong to a credential, such as fs.s3a.aws.credentials.provider.
_NOT_SECRET = {"provider", "providers", "endpoint", "url", "file", "keyfile", "path", "type", "expiration"}


def names_credential(name: str) -> bool:
    """Whether an option with this name holds a credential."""
    return _NAMED.search(name) is not None and not _NOT_SECRET & set(re.split(r"[^a-z]+", name.lower()))


def masked_override(text: str) -> str:
    """An override `key=value` for messages, without the value if it may contain a credential."""
    key, equals, value = text.partition("=")
    return f"{key}{equals}{MASK}" if value and _NAMED.search(text) else without_password(text)


class Vault:
    """The values of the secrets of one run."""

    def __init__(self) -> None:
        self._values: dict[Secret, str] = {}

    def check(self, tables: Iterable[tuple[str, Mapping[str, str | Secret]]]) -> None:
        """Read the secrets that need no session. Raises `ConfigError` with a line for each missing value of these options."""
        missing = []
        for key, options in tables:
            for option, value in options.items():
                try:
                    if isinstance(value, Secret) and (value.secret.startswith("env:") or not _may_have_dbutils()):
                        self._value(value, _option_key(key, option))
                except ConfigError as error:  # noqa: PERF203 - all errors are reported together
                    missing.append(str(error))
        if missing:
            raise ConfigError("\n".join(missing))

    def options(self, options: Mapping[str, str | Secret], key: str) -> dict[str, str]:
        """The options of a location, secrets replaced by their values. Raises `ConfigError` if a value is missing."""
        return {
            option: self._value(value, _option_key(key, option)) if isinstance(value, Secret) else value
            for option, value in options.items()
        }

    def masked(self, text: str) -> str:
        """The text with `***` in place of every value read so far, also where it is quoted or split into lines."""
        forms = {form for value in self._values.values() for form in _forms(value)}
        # The longest first, because one value may be part of another. Spark changes the case of some.
        written = "|".join(re.escape(form) for form in sorted(forms, key=len, reverse=True))
        return without_password(re.sub(written, MASK, text, flags=re.IGNORECASE) if written else text)

    def _value(self, secret: Secret, key: str) -> str:
        if secret not in self._values:
            read = _from_environment if secret.secret.startswith("env:") else _from_scope
            self._values[secret] = read(secret, key)
        return self._values[secret]


def _option_key(key: str, option: str) -> str:
    return f"{key}.options" + (f".{option}" if re.fullmatch(r"[\w-]+", option) else f"[{option!r}]")


def _from_environment(secret: Secret, key: str) -> str:
    name = secret.secret.removeprefix("env:")
    value = os.environ.get(name)
    if value is None or not value.strip():
        problem = "is not set" if value is None else "is empty"
        raise ConfigError(f"{key}: the environment variable {name} {problem}: set it to the secret on the driver")
    return value


def _from_scope(secret: Secret, key: str) -> str:
    scope, _, name = secret.secret.partition("/")
    dbutils = _dbutils()
    if dbutils is None:
        raise ConfigError(
            f"{key}: the secret {secret.secret} is a Databricks secret, found no dbutils here: outside Databricks use env:NAME"
        )
    try:
        value = dbutils.secrets.get(scope, name)
    except Exception as error:
        raise ConfigError(
            f"{key}: cannot read the secret {secret.secret}: {reason_of(error)}: check the scope, the key and the permissions"
        ) from error
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"{key}: the secret {secret.secret} is empty: store a string in the scope")
    return value


def _notebook_names() -> dict[str, Any]:
    """The variables of the notebook that this runs in; none elsewhere."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return {} if shell is None else shell.user_ns


def _may_have_dbutils() -> bool:
    return "dbutils" in _notebook_names() or find_spec("pyspark.dbutils") is not None


def _dbutils() -> Any:
    """The dbutils of Databricks; None elsewhere."""
    dbutils = _notebook_names().get("dbutils")
    if dbutils is not None or find_spec("pyspark.dbutils") is None:
        return dbutils
    from pyspark.sql import SparkSession

    return import_module("pyspark.dbutils").DBUtils(SparkSession.getActiveSession())


def _forms(value: str) -> set[str]:
    """How a message may show a value: as it is, quoted by Python, JSON or a URL, on one line, or one of its lines."""
    lines = [line.strip() for line in value.splitlines()]
    quoted = (repr(value)[1:-1], json.dumps(value)[1:-1], quote(value), quote(value, safe=""), quote_plus(value))
    # A short line of a long value reveals nothing, and masking it would mask half of the text.
    return {value, value.strip(), " ".join(value.split()), *quoted, *(line for line in lines if len(line) >= 8)} - {""}
