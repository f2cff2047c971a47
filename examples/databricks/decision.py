# Databricks notebook source
# MAGIC %md
# MAGIC # From tables to a decision
# MAGIC
# MAGIC Given are the recommendations of two models, and ground truth. Is the candidate better than the current model, for which
# MAGIC users is it worse, and should it go live? The notebook runs on classic and on serverless compute.
# MAGIC `docs/databricks.md` lists the requirements.

# COMMAND ----------

# MAGIC %pip install --quiet /Volumes/main/recs/packages/spark_recmetrics-0.1.0-py3-none-any.whl jinja2 matplotlib

# COMMAND ----------

# MAGIC %md
# MAGIC ## Tables
# MAGIC
# MAGIC Names in Unity Catalog. A job sets them as parameters with these names.

# COMMAND ----------

dbutils.widgets.text("predictions", "main.recs.predictions", "predictions: user_id, item_id, score, model")
dbutils.widgets.text("truth", "main.recs.truth", "truth: user_id, item_id, rating")
dbutils.widgets.text("as_of", "", "day: read only the rows with this value in the column day; empty: all rows")
dbutils.widgets.text("candidate", "als", "candidate: the new model")
dbutils.widgets.text("baseline", "popularity", "baseline: the current model")
dbutils.widgets.text("threshold", "4.0", "relevant if the rating is at least")
dbutils.widgets.text("n_buckets", "64", "number of groups of users that are scored together")
dbutils.widgets.text("report", "/Volumes/main/recs/reports/decision.html", "path of the HTML report, in a volume")

candidate = dbutils.widgets.get("candidate")
baseline = dbutils.widgets.get("baseline")
predictions = spark.table(dbutils.widgets.get("predictions"))
truth = spark.table(dbutils.widgets.get("truth"))
if as_of := dbutils.widgets.get("as_of"):  # in a configuration file: where: {day: "{as_of}"}
    predictions, truth = predictions.where(predictions["day"] == as_of), truth.where(truth["day"] == as_of)
display(predictions.limit(5))
display(truth.limit(5))

# COMMAND ----------

# MAGIC %md
# MAGIC ## Is the setup correct?
# MAGIC
# MAGIC A perfect and a random ranking must have the values that the formulas predict, and a model must tie with itself.

# COMMAND ----------

from spark_recmetrics.diagnostics.preflight_spark import prove

options = {
    "metrics": ["ndcg", "mrr"],
    "k": [5, 10],
    "threshold": float(dbutils.widgets.get("threshold")),
    "n_buckets": int(dbutils.widgets.get("n_buckets")),
}
checks = []
for check in prove(predictions, truth, **options):
    print(check)
    checks.append(check)
assert not [check for check in checks if check.level == "FAIL"], "the setup is wrong, so the values below would be meaningless"

# COMMAND ----------

# MAGIC %md
# MAGIC ## Which model is better?

# COMMAND ----------

import spark_recmetrics as srm

result = srm.evaluate(predictions, truth, models=[candidate, baseline], **options)
result  # the last line of a cell is displayed

# COMMAND ----------

comparison = srm.compare(result, baseline=baseline)
print(comparison)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Which users lose?
# MAGIC
# MAGIC The values per user are a table. These users lose most.

# COMMAND ----------

from pyspark.sql import functions as F

per_user = result.per_user.select("user", "model", "n_relevant", "ndcg_at_10")
pairs = per_user.where(F.col("model") == candidate).join(
    per_user.where(F.col("model") == baseline).select("user", F.col("ndcg_at_10").alias("ndcg_of_baseline")), "user"
)
losers = pairs.withColumn("difference", F.col("ndcg_at_10") - F.col("ndcg_of_baseline")).orderBy("difference", "user").limit(10)
display(losers)

# COMMAND ----------

# MAGIC %md
# MAGIC ## Should the candidate go live?

# COMMAND ----------

from spark_recmetrics.decisions.gates import Gate, check_gates

gates = [
    Gate("ndcg@10", model=candidate, min=0.1, min_users=20),
    Gate("ndcg@10", model=candidate, max_drop=0.0, against=f"model({baseline})", significant=True),
]
gate_results = check_gates(gates, result.rows, comparison=comparison.rows)
for row in gate_results:
    print(row.line())
print(result.to_html(dbutils.widgets.get("report"), comparison=comparison, gates=gate_results))

# COMMAND ----------

import json

better = [row["metric"] for row in comparison.rows if row["winner"] == candidate]
passed = all(row.result == "pass" for row in gate_results)
decision = {
    "candidate": candidate,
    "decision": "go live" if passed and better else "no significant improvement" if passed else "keep the baseline",
    "better_in": better,
}
print(json.dumps(decision, indent=2))
result.release()
dbutils.notebook.exit(json.dumps(decision))
