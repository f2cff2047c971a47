"""Every convention has the documented values."""

from __future__ import annotations

import math
import re
from dataclasses import FrozenInstanceError, fields

import pytest

from spark_recmetrics.conventions import CHOICES, CONVENTIONS, USER_SETS, Convention, convention
from spark_recmetrics.errors import ConfigError
from spark_recmetrics.metrics import DEFINITIONS

# The values of every convention that differ from BASE.
UNNAMED = """
relevance=present, threshold=1.0, candidates=all, duplicates=keep, nan_scores=last, ties=item_asc, users=relevant,
users_by_metric=(), undefined=zero, empty=nan, precision_denominator=k, recall_denominator=relevant, map_normalizer=min_k,
gain=binary, idcg=at_k, discount=log2_plus1, f1=per_user, beta=1.0, auc_negatives=exact, auc_ties=half,
auc_candidates=unseen, gauc_weight=uniform,
rating_rows=all, rating_average=pairs, rating_clip=none, coverage=fraction, gini_population=recommended, gini_scale=n,
entropy_base=2.718281828459045, entropy_scale=none
"""

# fmt: off
DIFFERS = {
    "standard": "relevance=positive, users=truth_and_predicted, empty=zero, gain=linear, f1=of_means",
    "threshold": "relevance=threshold, threshold=3.5, candidates=judged, ties=input, users=truth_and_predicted, empty=zero",
    "threshold_skip": "relevance=threshold, threshold=3.5, candidates=judged, ties=input, users=truth_and_predicted, "
                      "undefined=skip",
    "warprec": "relevance=positive, users_by_metric=((f1, all), (arp, relevant_and_predicted), (aplt, relevant_and_predicted), "
               "(aclt, relevant_and_predicted), (user_mad_rating, relevant_and_predicted)), "
               "gain=exponential_plus1, auc_negatives=plus_one, "
               "auc_ties=order, rating_rows=positive, rating_average=per_user, coverage=count, gini_population=catalog, "
               "gini_scale=n_minus_1",
    "warprec_doc": "relevance=positive, gain=exponential, rating_rows=positive, coverage=count, gini_population=catalog, "
                   "gini_scale=n_minus_1",
    "laikallm": "users=truth, map_normalizer=hits, idcg=list, rating_clip=truth_range",
    "laikallm_doc": "users=truth, map_normalizer=relevant, idcg=list, rating_average=users",
    "jurity": "relevance=truthy, users_by_metric=((precision, relevant_and_predicted), (map, relevant_and_predicted)), "
              "precision_denominator=recommended, idcg=all",
    "jurity_doc": "relevance=truthy, users_by_metric=((precision, relevant_and_predicted),), "
                  "precision_denominator=recommended, idcg=all",
    "recommenders": "users=truth_and_predicted, users_by_metric=((ndcg, truth),), undefined=skip, empty=zero",
    "mllib": "users=truth_and_predicted",
    "replay": "ties=item_desc, users=truth, auc_ties=order, auc_candidates=listed",
    "rectools": "users=truth, map_normalizer=relevant, idcg=full_k, coverage=count",
    "recbole": "relevance=positive, users=truth, gauc_weight=relevant, gini_population=catalog, entropy_scale=distinct",
    "ranx": "relevance=threshold, users=truth, map_normalizer=relevant, gain=linear",
    "trec_eval": "relevance=threshold, ties=item_desc, users=truth_and_predicted, map_normalizer=relevant, gain=linear",
    "lenskit": "users=predicted, undefined=skip, precision_denominator=recommended, recall_denominator=min_k, "
               "map_normalizer=min_recommended, discount=log2_clipped, gini_population=catalog",
    "torchmetrics": "relevance=positive, candidates=judged, users=truth_and_predicted, map_normalizer=hits, gain=linear",
    # The defaults of this package.
    "default": "relevance=positive, undefined=skip, gini_population=catalog",
}
# fmt: on

GUARDS = {"duplicates": "error", "nan_scores": "error", "negative_gains": "error"}
"""All conventions reject the same faulty input, independent of the system. `negative_gains` exists only here."""

FORMS = (
    " (expected a name, such as ranx, a name with options, such as ranx(gain=binary), or a mapping {name: ranx, gain: binary})"
)

NUMBERS = ("threshold", "beta", "entropy_base")

# The values of each option.
VALUES = {
    "relevance": "present, positive, truthy, threshold",
    "candidates": "all, judged",
    "users": "relevant, truth, predicted, truth_and_predicted, relevant_and_predicted, all",
    "undefined": "zero, skip",
    "empty": "nan, zero",
    "precision_denominator": "k, recommended",
    "recall_denominator": "relevant, min_k",
    "map_normalizer": "min_k, relevant, hits, k, min_recommended",
    "gain": "binary, linear, exponential, exponential_plus1",
    "idcg": "at_k, all, list, full_k",
    "discount": "log2_plus1, log2_clipped",
    "f1": "per_user, of_means",
    "auc_negatives": "exact, plus_one",
    "auc_ties": "half, order",
    "auc_candidates": "unseen, all, listed",
    "gauc_weight": "uniform, relevant, recommended",
    "rating_average": "pairs, per_user, users",
    "rating_clip": "none, truth_range",
    "rating_rows": "all, positive",
    "gini_population": "recommended, catalog",
    "gini_scale": "n, n_minus_1",
    "coverage": "fraction, count",
    "ties": "item_asc, item_desc, input",
    "duplicates": "keep, first, error",
    "nan_scores": "last, first, drop, error",
    "entropy_scale": "none, distinct",
    "negative_gains": "error, clip",
}
OPTIONS = {field.name for field in fields(Convention)} - {"name", "overrides"}


def read(text: str) -> dict[str, object]:
    """`a=b, c=((d, e),)` as a dict; numbers become floats and pairs tuples."""
    fields: dict[str, object] = {}
    for name, value in re.findall(r"(\w+)=(\([()\w, ]*\)|[\w.]+)", text):
        if value.startswith("("):
            fields[name] = tuple(re.findall(r"\((\w+), (\w+)\)", value))
        else:
            fields[name] = float(value) if re.fullmatch(r"[\d.]+", value) else value
    return fields


def test_the_page_is_parsed():
    assert read(DIFFERS["warprec"])["users_by_metric"][:2] == (("f1", "all"), ("arp", "relevant_and_predicted"))
    assert read(DIFFERS["threshold"])["threshold"] == 3.5
    assert len(read(UNNAMED)) == 30
    assert read(UNNAMED)["users_by_metric"] == ()
    assert read(UNNAMED)["entropy_base"] == math.e


def test_all_conventions_exist():
    assert set(CONVENTIONS) == set(DIFFERS)
    assert len(CONVENTIONS) == 18 + 1
    assert all(name == rules.name for name, rules in CONVENTIONS.items())


def test_every_option_is_documented():
    assert set(read(UNNAMED)) | {"negative_gains"} == OPTIONS


@pytest.mark.parametrize("name", DIFFERS)
def test_convention(name):
    expected = read(UNNAMED) | read(DIFFERS[name]) | GUARDS
    assert dict(CONVENTIONS[name].options()) == expected
    assert dict(CONVENTIONS[name].options()).keys() == OPTIONS


def test_values_of_the_options():
    assert {option: set(values) for option, values in CHOICES.items()} == {
        option: set(values.split(", ")) for option, values in VALUES.items()
    }
    assert CHOICES["users"] == USER_SETS


def test_users_by_metric_names_metrics():
    for rules in CONVENTIONS.values():
        assert {metric for metric, _ in rules.users_by_metric} <= set(DEFINITIONS)


def test_users_of():
    assert convention("jurity").users_of("precision") == "relevant_and_predicted"
    assert convention("jurity").users_of("recall") == "relevant"
    assert convention("warprec").users_of("f1") == "all"
    assert convention("recommenders").users_of("ndcg") == "truth"
    assert convention("recommenders").users_of("map") == "truth_and_predicted"


# By name ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CONVENTIONS)
def test_by_name(name):
    assert convention(name) is CONVENTIONS[name]
    assert convention(f" {name.upper()} ") is CONVENTIONS[name]
    assert convention(CONVENTIONS[name]) is CONVENTIONS[name]
    assert str(CONVENTIONS[name]) == name
    assert repr(CONVENTIONS[name]) == f"Convention('{name}')"


@pytest.mark.parametrize("name", CONVENTIONS)
def test_a_threshold_implies_threshold_relevance(name):
    rules = convention(name, threshold=4)
    assert (rules.relevance, rules.threshold) == ("threshold", 4.0)
    untouched = OPTIONS - {"relevance", "threshold"}
    assert {option: getattr(rules, option) for option in untouched} == {
        option: getattr(CONVENTIONS[name], option) for option in untouched
    }


def test_the_string_shows_the_threshold():
    assert str(convention("ranx", threshold=4)) == "ranx(threshold=4)"
    assert str(convention("default", threshold=3.5)) == "default(relevance=threshold, threshold=3.5)"
    assert str(convention("threshold", threshold=3.5)) == "threshold"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("rankx", "unknown convention 'rankx'; did you mean 'ranx'?"),
        ("Jurty", "unknown convention 'Jurty'; did you mean 'jurity'?"),
        ("treceval", "unknown convention 'treceval'; did you mean 'trec_eval'?"),
        ("", "unknown convention ''; known: " + ", ".join(sorted(CONVENTIONS))),
    ],
)
def test_an_unknown_name(name, message):
    with pytest.raises(ConfigError) as caught:
        convention(name)
    assert str(caught.value) == message + FORMS


TEXTS = [
    *CONVENTIONS,
    "default(relevance=threshold, threshold=3.5)",
    "ranx(threshold=4, gain=binary)",
    "lenskit(users_by_metric=hit:relevant_and_predicted+mrr:truth, undefined=zero)",
    "jurity(users_by_metric=, beta=0.5)",
    "recommenders(threshold=-1e+300, entropy_base=2)",
]


@pytest.mark.parametrize("text", TEXTS)
def test_the_string_in_a_result_round_trips(text):
    rules = convention(text)
    assert str(rules) == text
    assert convention(str(rules)) == rules
    assert convention({"name": rules.name, **dict(rules.options())}) == rules


def test_every_option_round_trips():
    for name, base in CONVENTIONS.items():
        for option, values in CHOICES.items():
            for value in values:
                changed = base.override(**{option: value})
                assert convention(str(changed)) == changed, (name, option, value)


def test_forms_of_a_convention():
    ranx = convention("ranx").override(gain="binary", users_by_metric={"ndcg": "truth"})
    assert convention(" RANX ( gain = binary , users_by_metric=ndcg:truth ) ") == ranx
    assert convention({"name": "ranx", "gain": "binary", "users_by_metric": {"ndcg": "truth"}}) == ranx
    assert convention({"gain": "linear"}) == convention("default").override(gain="linear")
    assert convention("ranx()") is not None
    assert convention("ranx(gain=binary)", threshold=3) == convention("ranx").override(gain="binary", threshold=3)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("ranx(gain=cubic)", "gain: expected one of binary, linear, exponential, exponential_plus1, found 'cubic'"),
        ("ranx(gian=binary)", "convention 'ranx' has no option 'gian'; did you mean 'gain'?"),
        ("ranx(threshold=high)", "threshold: expected a finite number, found 'high'"),
        ("ranx(threshold=nan)", "threshold: expected a finite number, found nan"),
        ("ranx(binary)", "convention: expected options such as gain=binary, found 'binary' without a value"),
        ("ranx(gain=binary, gain=linear)", "convention: expected options such as gain=binary, found 'gain' twice"),
        ("ranx(users_by_metric=ndcg)", "users_by_metric: expected pairs of metric and user set, found [('ndcg',)]"),
        ({"name": "ranx", "gian": 1}, "convention 'ranx' has no option 'gian'; did you mean 'gain'?"),
        ({"self": 1}, "convention 'default' has no option 'self'; known: {KNOWN}"),
        ({"name": None}, "unknown convention None; known: " + ", ".join(sorted(CONVENTIONS)) + FORMS),
        ("ranx(gain=binary", "unknown convention 'ranx(gain=binary'; did you mean 'ranx'?" + FORMS),
    ],
)
def test_invalid_strings(written, message):
    with pytest.raises(ConfigError) as caught:
        convention(written)
    assert str(caught.value) == message.replace("{KNOWN}", ", ".join(sorted({*CHOICES, *NUMBERS, "users_by_metric"})))


# Overrides ----------------------------------------------------------------------------------------------------------------


def test_override():
    rules = convention("mllib").override(users="truth", beta=2)
    assert (rules.users, rules.beta, rules.name) == ("truth", 2.0, "mllib")
    assert CONVENTIONS["mllib"].users == "truth_and_predicted"
    assert rules != CONVENTIONS["mllib"]
    assert rules == convention("mllib").override(beta=2.0).override(users="truth")
    assert hash(rules) == hash(convention("mllib").override(beta=2.0).override(users="truth"))


def test_the_string_shows_overrides_in_order_of_the_fields():
    assert str(convention("default").override(gain="linear")) == "default(gain=linear)"
    chained = convention("default").override(idcg="all").override(beta=0.5).override(gain="linear")
    assert str(chained) == "default(gain=linear, idcg=all, beta=0.5)"
    assert repr(chained) == "Convention('default(gain=linear, idcg=all, beta=0.5)')"
    users = convention("default").override(users_by_metric={"ndcg": "truth", "map": "all"})
    assert str(users) == "default(users_by_metric=ndcg:truth+map:all)"


def test_the_string_shows_no_override_with_the_same_value():
    assert str(convention("ranx").override(gain="linear")) == "ranx"
    assert str(convention("ranx").override(gain="binary").override(gain="linear")) == "ranx"
    assert convention("ranx").override(gain="linear") == CONVENTIONS["ranx"]


def test_users_by_metric_takes_a_mapping_or_pairs():
    pairs = (("ndcg", "truth"), ("map", "all"))
    as_mapping = convention("default").override(users_by_metric=dict(pairs))
    assert as_mapping.users_by_metric == pairs
    assert convention("default").override(users_by_metric=[list(pair) for pair in pairs]) == as_mapping


def test_every_value_of_every_option():
    for option, values in CHOICES.items():
        for value in values:
            assert getattr(convention("default").override(**{option: value}), option) == value
    for option in ("threshold", "beta", "entropy_base"):
        assert getattr(convention("default").override(**{option: 2}), option) == 2.0
    assert convention("default").override(threshold=-1).threshold == -1.0


def test_a_convention_is_immutable():
    with pytest.raises(FrozenInstanceError):
        CONVENTIONS["default"].gain = "linear"


# Errors -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", CHOICES)
@pytest.mark.parametrize("value", ["nope", "", None, 1, True, ["k"]])
def test_a_wrong_value_lists_the_allowed_ones(option, value):
    with pytest.raises(ConfigError) as caught:
        convention("default").override(**{option: value})
    assert str(caught.value) == f"{option}: expected one of {', '.join(CHOICES[option])}, found {value!r}"
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("beta", 0, "a finite number above 0"),
        ("beta", -1.0, "a finite number above 0"),
        ("beta", True, "a finite number above 0"),
        ("beta", "2", "a finite number above 0"),
        ("beta", math.nan, "a finite number above 0"),
        ("beta", math.inf, "a finite number above 0"),
        ("entropy_base", 1, "a finite number above 1"),
        ("threshold", math.nan, "a finite number"),
        ("threshold", math.inf, "a finite number"),
        ("threshold", -math.inf, "a finite number"),
        ("threshold", "4", "a finite number"),
        ("threshold", True, "a finite number"),
        ("threshold", None, "a finite number"),
    ],
)
def test_a_wrong_number(option, value, expected):
    with pytest.raises(ConfigError) as caught:
        convention("default").override(**{option: value})
    assert str(caught.value) == f"{option}: expected {expected}, found {value!r}"


@pytest.mark.parametrize(
    ("option", "tail"),
    [("gian", "; did you mean 'gain'?"), ("user", "; did you mean 'users'?"), ("Relevance", "; did you mean 'relevance'?")],
)
def test_an_unknown_option(option, tail):
    with pytest.raises(ConfigError) as caught:
        convention("ranx").override(**{option: "all"})
    assert str(caught.value) == f"convention 'ranx' has no option {option!r}{tail}"


@pytest.mark.parametrize("option", ["name", "overrides"])
def test_only_options_can_be_overridden(option):
    with pytest.raises(ConfigError, match=f"convention 'ranx' has no option '{option}'"):
        convention("ranx").override(**{option: "x"})


def test_a_wrong_user_set_of_a_metric():
    with pytest.raises(ConfigError) as caught:
        convention("ranx").override(users_by_metric={"ndcg": "everyone"})
    assert str(caught.value) == f"users_by_metric.ndcg: expected one of {', '.join(USER_SETS)}, found 'everyone'"
