"""Reading input tables: options, names of tables, and what is said of a table that cannot be read."""

from __future__ import annotations

import os

import pytest
from job_data import VALUE, untold

from spark_recmetrics.errors import DataError
from spark_recmetrics.storage.credentials import Secret, Vault
from spark_recmetrics.storage.locations import Location
from spark_recmetrics.storage.read import read_table


@pytest.mark.spark
def test_options_beside_a_table_of_the_catalog_are_its_readers(spark):
    """Delta and Iceberg read an older version by them. Here `nullValue` of CSV shows whether they arrive."""
    rows = spark.createDataFrame([("NA",), ("v",)], "user_id string")
    rows.write.format("csv").mode("overwrite").saveAsTable("with_options")
    try:
        place = Location(table="with_options", options={"nullValue": "NA"})
        assert sorted(map(str, read_table(spark, place, "inputs.truth", Vault()).toPandas()["user_id"])) == ["None", "v"]
    finally:
        spark.sql("DROP TABLE with_options")


@pytest.mark.spark
def test_what_spark_says_of_a_table_is_covered(spark, monkeypatch, tmp_path) -> None:
    """Spark quotes a wrong `modifiedAfter`, which stands here for a credential that a storage refuses."""
    monkeypatch.setenv("RECMETRICS_TEST_A", VALUE)
    (tmp_path / "t.csv").write_text("a\n1\n")
    place = Location(path=str(tmp_path / "t.csv"), format="csv", options={"modifiedAfter": Secret("env:RECMETRICS_TEST_A")})
    with pytest.raises(DataError) as caught:
        read_table(spark, place, "inputs.truth", Vault())
    assert str(caught.value).startswith("inputs.truth: cannot read csv at ")
    assert "the provided timestamp: ***" in str(caught.value)
    assert untold(str(caught.value))
    assert caught.value.__cause__ is None


@pytest.mark.spark
@pytest.mark.once
def test_i5_tables_with_hyphens_and_dots_are_read(spark) -> None:
    """In a catalog of a database in memory: that of Spark itself has letters, digits and underscores only."""
    spark._jvm.java.lang.System.setProperty("derby.stream.error.file", os.devnull)
    catalog = "spark.sql.catalog.my-cat"
    settings = {
        catalog: "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog",
        f"{catalog}.url": "jdbc:derby:memory:names;create=true",
        f"{catalog}.driver": "org.apache.derby.jdbc.EmbeddedDriver",
    }
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        spark.sql("CREATE NAMESPACE `my-cat`.`s-1`")
        for name in ("`my-cat`.`s-1`.`t`", "`my-cat`.`s-1`.`t.u`"):
            spark.createDataFrame([("u", name)], "user_id string, item_id string").writeTo(name).create()
        for name, same in (
            ("my-cat.s-1.t", "`my-cat`.`s-1`.`t`"),
            ("`my-cat`.`s-1`.`t`", "`my-cat`.`s-1`.`t`"),
            ("my-cat.s-1.`t.u`", "`my-cat`.`s-1`.`t.u`"),
        ):
            (row,) = read_table(spark, Location(table=name), "inputs.truth", Vault()).collect()
            assert row["item_id"] == same
        with pytest.raises(DataError, match=r"^inputs\.truth: cannot read table 'my-cat\.s-1\.t\.u': "):
            read_table(spark, Location(table="my-cat.s-1.t.u"), "inputs.truth", Vault())
    finally:
        for key in settings:
            spark.conf.unset(key)
