# Everything runs in .venv, which `demo` and `test` make themselves. Needed beforehand: Python 3.10+ and Java 17+.
#   make PYTHON=python3.12 test     another Python for a new .venv
#   make AIRFLOW_PYTHON=... test-airflow    another Python 3.11 for Airflow's own environment
#   make DATA=ml-100k demo          the larger data set
#   make BENCH='--limit 900' bench  other options of benchmarks/rivals.py
# test-matrix has environments of its own in .matrix.

PYTHON ?= python3
AIRFLOW_PYTHON ?= python3.11
DATA ?= sample

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
CLASSES := $(VENV)/spark-classes.jsa
AIRFLOW := .airflow-env
SITE := .site-env
WHEEL := .demo/wheels/recbole-1.2.1-py3-none-any.whl

CONF_sample := conf/demo.yaml
CONF_ml-100k := conf/demo-ml-100k.yaml
MATRIX_TESTS := evaluation/test_memory.py metrics/test_kernels.py metrics/test_kernels_oracle.py metrics/test_parsing.py metrics/test_registry.py test_conventions.py evaluation/test_cases.py stats/test_many.py stats/test_paired.py stats/test_resample.py stats/test_result.py \
    job/files job/test_mlflow.py evaluation/test_evaluate.py inputs/test_data_report.py evaluation/test_beyond_accuracy.py ranking/test_lists.py aggregation/test_slices.py decisions/test_comparison.py decisions/test_gates.py job/test_gates.py \
    splits/test_times.py splits/test_methods.py splits/test_interactions.py splits/test_split.py job/files/test_split_config.py job/test_split.py evaluation/test_explain.py inputs/test_buckets.py ranking/test_arrays.py diagnostics/test_preflight.py runs/test_history.py storage/test_csv_files.py storage/test_read.py job/test_cli.py job/test_evaluate.py job/test_outcome.py job/test_report.py diagnostics/test_doctor.py \
    end_to_end/test_installed.py end_to_end/test_check_java.py reports/test_drawing.py reports/test_findings.py reports/test_markdown.py reports/test_page.py reports/test_plots.py reports/test_selection.py reports/test_tables.py evaluation/test_result_files.py

OWN_SPARK := tests/evaluation/test_agreement.py tests/job/test_cli.py tests/job/test_evaluate.py tests/job/test_filters.py tests/job/test_gates.py tests/job/test_outcome.py tests/job/test_report.py tests/job/test_split.py tests/end_to_end/test_cluster_shape.py tests/end_to_end/test_databricks.py tests/storage/test_delta.py tests/diagnostics/test_doctor.py tests/end_to_end/test_faults.py tests/reports/test_page.py tests/diagnostics/test_preflight.py tests/storage/test_progress.py tests/runs/test_history.py tests/runs/test_interrupted_runs.py tests/job/test_mlflow.py

CONF := $(or $(CONF_$(DATA)),$(error DATA=$(DATA) is unknown; there are sample and ml-100k))

# Workers run the interpreter that PYSPARK_PYTHON names, by default the first python3 on the path, which has no numpy.
export PYSPARK_PYTHON := $(CURDIR)/$(BIN)/python
export PYSPARK_DRIVER_PYTHON := $(PYSPARK_PYTHON)
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# Another Spark on this machine must not win over the tested one, nor send the demo to a cluster. PYTHONPATH is here because
# Spark's instructions for a tarball put its own pyspark there.
unexport SPARK_HOME SPARK_CONF_DIR SPARK_REMOTE PYSPARK_SUBMIT_ARGS PYTHONPATH HADOOP_CONF_DIR YARN_CONF_DIR
# Without compiled files, each process of the tests, the jobs and the workers would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

# conf/log4j2.properties keeps Spark's log to errors.
SUBMIT := SPARK_CONF_DIR="$(CURDIR)/conf" $(BIN)/spark-submit --properties-file conf/spark-defaults.conf

.DEFAULT_GOAL := help
.PHONY: help demo test test-browser test-connect test-heavy test-slow test-matrix test-oldest test-newest test-airflow lint format typecheck docs site pictures bench bench-breadth bench-check bench-sizes clean check-java
# The Java check comes first, and two Spark runs at once would fight for the cores.
.NOTPARALLEL:

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: check-java $(READY) $(if $(filter ml-100k,$(DATA)),$(WHEEL)) ## evaluate two models on real ratings (DATA=sample or ml-100k)
	@test -f $(CONF)
	$(SUBMIT) jobs/prepare_demo.py --data $(DATA) --output .demo/$(DATA) $(if $(filter ml-100k,$(DATA)),--ml-100k-wheel $(WHEEL))
	$(SUBMIT) jobs/evaluate.py --config $(CONF)

# Two lanes side by side, each on about one core. What the second one says is shown when both have ended.
define in_two_lanes
	@log=$$(mktemp); \
	( $(2) ) > "$$log" 2>&1 & other=$$!; \
	$(1); one=$$?; \
	wait $$other; other=$$?; \
	cat "$$log"; rm -f "$$log"; \
	exit $$((one ? one : other))
endef

# Classic Spark; and the core of the suite on Spark Connect, then what needs no Spark.
test: check-java lint typecheck $(CLASSES) ## lint, type check, and the suite on classic Spark and on Spark Connect
	$(call in_two_lanes,$(BIN)/pytest -m "spark and not connect and not heavy",\
	    $(BIN)/pytest -m "spark and (connect or core) and not (once or heavy)" --session=connect -p no:cacheprovider; connect=$$?; \
	    $(BIN)/pytest -m "not spark and not heavy and not browser" -p no:cacheprovider && exit $$connect)

# Tests in one session; and whole runs of the jobs, which start a Spark of their own each.
test-heavy: check-java $(CLASSES) ## the checks that take long: more data, more conventions, whole runs of the jobs
	$(call in_two_lanes,$(BIN)/pytest -m "heavy and not slow" $(addprefix --ignore=,$(OWN_SPARK)),\
	    $(BIN)/pytest -m "heavy and not slow" -p no:cacheprovider $(OWN_SPARK); runs=$$?; \
	    $(BIN)/pytest -m heavy -p no:cacheprovider --session=connect tests/end_to_end/test_databricks.py && exit $$runs)

test-slow: check-java $(CLASSES) ## before a release: lost executors, killed runs, a million users, tests of both engines on Spark
	$(call in_two_lanes,$(BIN)/pytest -m slow $(addprefix --ignore=,$(OWN_SPARK)),\
	    $(BIN)/pytest -m slow -p no:cacheprovider $(OWN_SPARK))

test-connect: check-java $(CLASSES) ## all Spark tests that are not heavy on Spark Connect; `make test` runs the core of them
	$(BIN)/pytest -m "spark and not (once or heavy)" --session=connect -p no:cacheprovider

test-matrix: test-oldest test-newest ## the core of the suite on the wheel, with the oldest and with the newest versions

# Not from the root, whose files would win over the installed package.
test-oldest test-newest: test-%: check-java .matrix/%/.ready
	@rm -f .matrix/$*/*.whl
	.matrix/$*/bin/python -m pip wheel --quiet --no-deps -w .matrix/$* .
	.matrix/$*/bin/python -m pip install --quiet --no-deps --force-reinstall .matrix/$*/*.whl
	cd tests && ../.matrix/$*/bin/pytest -p no:cacheprovider --own-warnings -m "core or not (spark or heavy)" --durations=25 $(MATRIX_TESTS)

# The settings of pytest are those of the suite, where a warning is an error; here others are to blame for most of them.
test-airflow: check-java $(AIRFLOW)/.ready ## the DAGs of examples/airflow on the real Airflow, in an environment of its own
	$(AIRFLOW)/bin/pytest -c /dev/null --rootdir=. -p no:cacheprovider tests/end_to_end/airflow_dags.py

test-browser: $(READY) ## the HTML report in a headless Chromium, which root gets from Debian where there is none
	@command -v chromedriver > /dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null \
	    && apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium chromium-driver > /dev/null; } \
	    || echo "There is no chromedriver, and it cannot be installed here; on Debian: sudo apt-get install chromium chromium-driver" >&2
	$(BIN)/pytest -m browser

lint: $(READY) ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(READY) ## let ruff repair and format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

typecheck: $(READY) ## mypy, strict
	$(BIN)/mypy spark_recmetrics jobs

docs: check-java $(READY) ## check the documentation: doctests, and the code blocks of README.md and docs/
	$(BIN)/pytest tests/test_docs.py

# Strict: a link that leads nowhere, or a page that the menu lacks, ends it. Not --quiet, which also hides these from it.
site: $(SITE)/.ready ## the documentation as a site, into site/, with the reference of the public names
	NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build --strict

pictures: ## the pictures of docs/gallery.md, of the demo on MovieLens 100K; some minutes
	$(MAKE) demo DATA=ml-100k
	$(SUBMIT) scripts/make_pictures.py

bench: check-java $(READY) ## this project beside its rivals on 14 million predictions, into docs/performance.md; an hour
	$(BIN)/python benchmarks/rivals.py --page docs/performance.md $(BENCH)

bench-breadth: check-java $(READY) ## what the metrics of accuracy, and all, cost beside nDCG alone, on 14 million predictions
	$(BIN)/python benchmarks/breadth.py

bench-check: check-java $(READY) ## fail where an evaluation became slower beside the same work in Spark SQL
	$(BIN)/python benchmarks/check.py

bench-sizes: check-java $(READY) ## what grows with the rows, up to 105 million, and uneven inputs, into docs/sizing.md; an hour
	$(BIN)/python benchmarks/sizes.py --page docs/sizing.md
	$(BIN)/python benchmarks/skew.py --page docs/sizing.md

clean: ## remove what the other targets wrote, except .venv
	rm -rf .demo .matrix .rivals $(AIRFLOW) $(SITE) site build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis spark-warehouse metastore_db derby.log artifacts
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -exec rm -rf {} +

check-java:
	@scripts/check-java

$(READY): pyproject.toml constraints/tested.txt
	@command -v "$(PYTHON)" > /dev/null || { echo "There is no $(PYTHON); install Python 3.10 or newer, or name one: make PYTHON=..." >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	    { echo "$(PYTHON) is $$("$(PYTHON)" -V 2>&1), but 3.10 or newer is needed; name another: make PYTHON=python3.12" >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2> /dev/null || \
	    { echo "$(PYTHON) has no venv module; on Debian: sudo apt-get install python3-venv" >&2; exit 1; }
	"$(PYTHON)" -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints/tested.txt -e '.[dev]'
	@touch $@

# The JVMs of the tests start in half the time with it, and do without if it cannot be written.
$(CLASSES): $(READY)
	PYTHONPATH=tests $(BIN)/python tests/class_archive.py $@; test -f $@ || touch $@

.matrix/%/.ready: constraints/%.txt pyproject.toml
	@test $* != oldest || "$(PYTHON)" -c 'import sys; sys.exit(sys.version_info >= (3, 12))' || \
	    { echo "Spark 3.5 needs Python 3.10 or 3.11; name one: make PYTHON=python3.11 test-oldest" >&2; exit 1; }
	"$(PYTHON)" -m venv --clear $(@D)
	$(@D)/bin/python -m pip install --quiet -c constraints/$*.txt '.[spark,mlflow,report]' chispa hypothesis pytest
	@touch $@

$(AIRFLOW)/.ready: pyproject.toml constraints/airflow.txt
	@"$(AIRFLOW_PYTHON)" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || \
	    { echo "constraints/airflow.txt is for Python 3.11; name one: make AIRFLOW_PYTHON=..." >&2; exit 1; }
	"$(AIRFLOW_PYTHON)" -m venv $(AIRFLOW)
	$(AIRFLOW)/bin/python -m pip install --quiet --no-deps -r constraints/airflow.txt
	$(AIRFLOW)/bin/python -m pip install --quiet --no-deps -e .
	@touch $@

$(SITE)/.ready: constraints/site.txt
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "constraints/site.txt is for Python 3.11 or newer; name one: make PYTHON=python3.11 site" >&2; exit 1; }
	"$(PYTHON)" -m venv --clear $(SITE)
	$(SITE)/bin/python -m pip install --quiet --no-deps -r constraints/site.txt
	@touch $@

$(WHEEL): | $(READY)
	$(BIN)/python -m pip download --quiet --no-deps recbole==1.2.1 -d $(@D)
