"""The changes of a strategy by a publication, in sentences."""

from support.strategies import group, strategy
from zkdeployment.strategies.documents import StrategyChange
from zkdeployment.strategies.strategy import ALL_HOSTS

OLD = strategy(group("a"), group("b", "a"), group("c"))
NEW = strategy(group("d"), group("a"), group("b", "a", critical=True))


def told(before, after):
    change = StrategyChange(before, after)
    return bool(change), change.kind, list(change.describe())


def test_equal_strategies_have_no_change_lines():
    assert StrategyChange(OLD, OLD).to_json()["groups"] == {"added": [], "changed": [], "deleted": []}
    for same in (None, OLD):
        assert not StrategyChange(same, same)
        assert list(StrategyChange(same, same).describe()) == []


def test_changed_groups_are_listed_by_name():
    lines = ["change strategy deployment-strategy", "add group d", "change group b", "delete group c"]
    assert told(OLD, NEW) == (True, "changed", lines)
    assert StrategyChange(OLD, NEW).to_json() == {
        "before": "deployment-strategy",
        "after": "deployment-strategy",
        "groups": {"added": ["d"], "changed": ["b"], "deleted": ["c"]},
    }


def test_another_order_of_the_groups_is_a_change():
    assert told(OLD, strategy(*reversed(OLD.groups))) == (True, "changed", ["change strategy deployment-strategy"])


def test_a_strategy_comes_and_goes():
    groups = ["group a", "group b", "group c"]
    assert told(None, OLD) == (
        True,
        "added",
        ["add strategy deployment-strategy", *(f"add {one}" for one in groups)],
    )
    assert told(OLD, None) == (
        True,
        "deleted",
        ["delete strategy deployment-strategy", *(f"delete {one}" for one in groups)],
    )


def test_a_strategy_that_takes_anothers_place_is_named():
    assert told(strategy(), ALL_HOSTS)[2] == [
        "delete strategy deployment-strategy",
        "add strategy all-hosts",
        "add group all-hosts",
    ]
