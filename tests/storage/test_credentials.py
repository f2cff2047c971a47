"""The values of secrets: where they are read, and that they are masked in every form."""

from __future__ import annotations

import json
import sys
from types import ModuleType, SimpleNamespace
from urllib.parse import quote, quote_plus

import pytest
from job_data import VALUE, hides_password

from spark_recmetrics.errors import ConfigError
from spark_recmetrics.storage import credentials
from spark_recmetrics.storage.credentials import Secret, Vault, names_credential


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *dict.fromkeys(
            ("password", "sslPassword", "fs.s3a.secret.key", "fs.s3a.session.token", "fs.azure.account.key.shop.example"), True
        ).items(),
        *dict.fromkeys(("fs.azure.account.oauth2.client.secret", "fs.gs.auth.service.account.private.key"), True).items(),
        *dict.fromkeys(("header", "sep", "nullValue", "fs.s3a.aws.credentials.provider", "fs.s3a.endpoint"), False).items(),
        *dict.fromkeys(("fs.azure.account.oauth2.token.file", "fs.s3a.access.key"), False).items(),
    ],
)
def test_names_of_credentials(name: str, *, expected: bool) -> None:
    assert names_credential(name) == expected


SCOPED = {"password": Secret("recs/key"), "sep": ";"}


class Scopes:
    """The part of dbutils that is used."""

    def __init__(self, *_: object) -> None:
        self.secrets = self

    def get(self, scope: str, key: str) -> str:
        if (scope, key) != ("recs", "key"):
            raise PermissionError(f"no {scope}/{key} for you\nmore")
        return VALUE


def test_scopes_need_databricks() -> None:
    message = (
        r"^inputs\.x\.options\.password: the secret recs/key is a Databricks secret, found no dbutils here: .* use env:NAME$"
    )
    for read in (lambda: Vault().options(SCOPED, "inputs.x"), lambda: Vault().check([("inputs.x", SCOPED)])):
        with pytest.raises(ConfigError, match=message):
            read()


@pytest.mark.parametrize("place", ["notebook", "job"])
def test_scopes_are_read_through_dbutils(monkeypatch, place: str) -> None:
    if place == "notebook":
        shell = SimpleNamespace(user_ns={"dbutils": Scopes()})
        monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    else:
        module = ModuleType("pyspark.dbutils")
        module.DBUtils = Scopes  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "pyspark.dbutils", module)
        monkeypatch.setattr(credentials, "find_spec", lambda name: name == "pyspark.dbutils")
    vault = Vault()
    vault.check([("inputs.x", SCOPED)])
    assert vault.masked(VALUE) == VALUE, "dbutils is not used before there is a session"
    assert vault.options(SCOPED, "inputs.x") == {"password": VALUE, "sep": ";"}
    assert vault.masked(VALUE) == "***"
    with pytest.raises(ConfigError) as caught:
        vault.options({"password": Secret("recs/no")}, "inputs.x")
    assert str(caught.value) == (
        "inputs.x.options.password: cannot read the secret recs/no: no recs/no for you: "
        "check the scope, the key and the permissions"
    )


@pytest.mark.parametrize(
    "value",
    [
        "hunter2",
        VALUE,
        "hunter2'\"\\x",
        "-----BEGIN KEY-----\nhunter2AAAA\nBBBBhunter2\n-----END KEY-----\n",
        " hunter2 ",
        "hunter2\ttab",
        "hunter2 with/slash&more=1",
    ],
)
def test_values_are_masked_in_every_form(monkeypatch, value: str) -> None:
    monkeypatch.setenv("RECMETRICS_TEST_A", value)
    monkeypatch.setenv("RECMETRICS_TEST_B", value + "longer")
    vault = Vault()
    for name in "AB":
        vault.options({"password": Secret(f"env:RECMETRICS_TEST_{name}")}, "inputs.x")
    texts = [value, repr(value), json.dumps(value), quote(value), quote_plus(value), " ".join(value.split())]
    texts += [value + "longer", value.replace("hunter", "Hunter")]
    texts += value.strip().splitlines()[:3]
    for text in texts:
        masked = vault.masked(f"Spark says: {text}.")
        assert hides_password(masked), text
        assert masked.startswith("Spark says: ")
        assert "***" in masked
    assert vault.masked("nothing here") == "nothing here"
