"""Requests of the bridge about many instances: their parts, and the form of answers."""

from zkdeployment.checks.nagios.batch import MOST_INSTANCES, CheckAnswer, request_parts


def test_parts_have_at_most_so_many_items_and_bytes():
    assert [len(part) for part in request_parts(range(MOST_INSTANCES * 2 + 1))] == [MOST_INSTANCES] * 2 + [1]
    assert [*request_parts([])] == []
    assert [*request_parts([300_000, 200_000, 1, 900_000, 5], lambda size: size)] == [
        [300_000, 200_000],
        [1],
        [900_000],
        [5],
    ]


def test_an_answer_names_the_failure_and_its_configuration():
    assert CheckAnswer(instance="a", config_id=None).to_json() == {"result": "success", "reason": ""}
    failed = CheckAnswer(instance="a", config_id="c", problem="ü" * 2000)
    assert failed.to_json() == {"result": "failed", "reason": "ü" * 1000, "config_id": "c"}
    assert failed.size == 2000
