"""The difference of two contents."""

from zkdeployment.intents.rules.content import IntentContent
from zkdeployment.intents.rules.overview import content_difference, difference_to_json

OLD = IntentContent(
    {"apps": {"front": ["/p1/front"]}, "composite-profile": "plain"},
    {"/p1/front": {"version": "1", "greeting": "hello"}, "/p1/front/deploy": {}, "/p1/front/deploy/h1": {}},
)
NEW = IntentContent(
    {"apps": {"front": ["/p1/front"]}, "composite-profile": "large"},
    {"/p1/front": {"version": "2", "greeting": "hello"}, "/p1/front/deploy": {}, "/p1/front/deploy/h2": {}},
)


def test_the_lines_name_changed_keys_nodes_and_properties() -> None:
    assert list(content_difference(OLD, NEW)) == [
        'change composite-profile from "plain" to "large"',
        "/p1/front change property version from '1' to '2'",
        "delete /p1/front/deploy/h1",
        "add /p1/front/deploy/h2",
    ]
    assert list(content_difference(OLD, OLD)) == []


def test_programs_get_the_values_before_and_after() -> None:
    assert difference_to_json(OLD, NEW) == {
        "document": {"composite-profile": {"before": "plain", "after": "large"}},
        "create": {"/p1/front/deploy/h2": {}},
        "update": {"/p1/front": {"version": "2", "greeting": "hello"}},
        "delete": ["/p1/front/deploy/h1"],
    }
