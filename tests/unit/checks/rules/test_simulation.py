"""The workflow as literal sequences: each sentence of its description, event by event."""

import json

import pytest

from zkdeployment.checks.rules.instance import CheckState
from zkdeployment.checks.rules.simulation import play, read_simulation
from zkdeployment.checks.rules.workflow import KEPT_VERSIONS

UP = ["create A", "tick", "fetch", "success"]


def steps(*events, start=None, callback=True):
    """Return the steps of events, written as ``create A``, ``tick!`` (its poke fails) or the name alone."""
    written = []
    for event in events:
        name, _, letter = event.partition(" ")
        details = {"details": {"is": letter}} if letter else {}
        written.append({"event": name.rstrip("!"), **details, **({"poke": "fails"} if "!" in name else {})})
    document = {"callback": callback, "start": start, "events": written}
    return [step.to_json() for step in play(read_simulation("test", json.dumps(document).encode()))]


def line(step):
    """Return a step as text: answer or reply, the versions (the current one marked), poked, flag and deletion."""
    reply = step["reply"]
    said = reply["task"] if isinstance(reply, dict) else step["answer"] if reply is None else str(reply).lower()
    versions = [
        f"{found['details']['is']}{'*' if found['version'] == step['current'] else ''} {found['state']}"
        for found in step["configurations"]
    ]
    marks = [mark for mark in ("poked", "update_available", "deleted") if step[mark]]
    return " | ".join([said, ", ".join(versions), *([" ".join(marks)] if marks else [])])


def lines(*events, start=None, callback=True):
    return [line(step) for step in steps(*events, start=start, callback=callback)]


def last(*events, start=None, callback=True):
    return lines(*events, start=start, callback=callback)[-1]


def started(state, *, flag=False, deleted=False, letter="A"):
    return {
        "configurations": [{"version": 0, "state": state, "details": {"is": letter}}],
        "current": 0,
        "update_available": flag,
        "deleted": deleted,
    }


def test_a_step_has_exactly_these_keys():
    [step, fetched] = steps("create A", "fetch")
    assert step == {
        "event": "create",
        "answer": "ok",
        "reply": None,
        "poked": False,
        "configurations": [{"version": 0, "state": "awaiting_rollout", "details": {"is": "A"}}],
        "current": 0,
        "update_available": True,
        "deleted": False,
    }
    assert fetched["reply"] == {"is": "A", "task": "rollout"}


def test_a_check_is_rolled_out_changed_and_deleted():
    assert lines(*UP, "change B", "tick", "fetch", "success", "tick", "fetch", "success", "delete", "tick") == [
        "ok | A* awaiting_rollout | update_available",
        "ok | A* awaiting_rollout | poked",
        "rollout | A* rollout_in_progress",
        "ok | A* active",
        "ok | A* awaiting_deprovision, B blocked | update_available",
        "ok | A* awaiting_deprovision, B blocked | poked",
        "deprovision | A* deprovision_in_progress, B blocked",
        "ok | A* deprovisioned, B blocked",
        "ok | A deprovisioned, B* awaiting_rollout | poked",
        "rollout | A deprovisioned, B* rollout_in_progress",
        "ok | A deprovisioned, B* active",
        "ok | A deprovisioned, B* active | deleted",
        "ok | A awaiting_deletion, B* awaiting_deprovision | poked deleted",
    ]


def test_the_last_undeployment_of_a_deleted_check_is_a_deletion():
    assert lines(*UP, "delete", "tick", "fetch", "success", "tick")[-3:] == [
        "delete | A* deprovision_in_progress | deleted",
        "ok | A* deprovisioned | deleted",
        "ok | A* awaiting_deletion | deleted",
    ]


def test_a_first_configuration_is_version_0_and_the_number_of_a_discarded_one_is_used_again():
    versions = [
        [found["version"] for found in step["configurations"]]
        for step in steps("create A", "change A", "change B", "change B", "change C")
    ]
    assert versions == [[0], [0], [0, 1], [0, 1], [0, 1, 2]]


def test_an_unchanged_configuration_is_discarded_and_nothing_is_sent():
    assert last(*UP, "change A") == "ok | A* active"


def test_a_chain_ends_at_the_newest_and_a_return_undeploys_and_deploys_once():
    assert lines(*UP, "change B", "change A", "tick", "fetch", "success", "tick", "fetch", "success")[4:] == [
        "ok | A* awaiting_deprovision, B blocked | update_available",
        "ok | A* awaiting_deprovision, B awaiting_deletion, A blocked | update_available",
        "ok | A* awaiting_deprovision, B awaiting_deletion, A blocked | poked",
        "deprovision | A* deprovision_in_progress, B awaiting_deletion, A blocked",
        "ok | A* deprovisioned, B awaiting_deletion, A blocked",
        "ok | A deprovisioned, B awaiting_deletion, A* awaiting_rollout | poked",
        "rollout | A deprovisioned, B awaiting_deletion, A* rollout_in_progress",
        "ok | A deprovisioned, B awaiting_deletion, A* active",
    ]


def test_a_change_keeps_the_last_versions_and_those_in_use_as_the_store_does():
    changes = [f"change {number}" for number in range(1, 2 * KEPT_VERSIONS)]
    [*_, before, after] = steps(*UP, *changes)
    assert [found["version"] for found in after["configurations"]] == [0, *range(KEPT_VERSIONS, 2 * KEPT_VERSIONS)]
    assert {len(step["configurations"]) for step in (before, after)} == {KEPT_VERSIONS + 1}


def test_a_change_before_the_rollout_was_fetched_undeploys_at_once():
    assert last("create A", "change B") == "ok | A* awaiting_deprovision, B blocked | update_available"


def test_a_change_during_the_rollout_waits_until_it_landed_and_leaves_the_flag_alone():
    assert lines("create A", "tick", "fetch", "change B", "tick", "success", "tick")[3:] == [
        "ok | A* rollout_in_progress, B blocked",
        "ok | A* rollout_in_progress, B blocked",
        "ok | A* active, B blocked",
        "ok | A* awaiting_deprovision, B blocked | poked",
    ]


def test_a_change_during_a_rollout_that_fails_starts_in_the_next_turn():
    assert lines("create A", "tick", "fetch", "change B", "failed", "tick")[4:] == [
        "ok | A* rollout_failed, B blocked",
        "ok | A awaiting_deletion, B* awaiting_rollout | poked",
    ]


def test_a_change_after_a_failed_rollout_starts_at_once():
    assert last("create A", "tick", "fetch", "failed", "change B") == (
        "ok | A awaiting_deletion, B* awaiting_rollout | update_available"
    )


def test_a_change_during_an_undeployment_replaces_the_blocked_one():
    assert last(*UP, "change B", "tick", "fetch", "change C") == (
        "ok | A* deprovision_in_progress, B awaiting_deletion, C blocked"
    )


def test_a_deleted_rollout_that_was_never_announced_is_never_sent():
    assert last("create A", "delete", "tick") == "ok | A* awaiting_deletion | deleted"
    assert last("create A", "tick!", "delete", "tick", "fetch") == "not found | A* awaiting_deletion | deleted"


def test_a_deleted_rollout_that_was_announced_is_rolled_out_and_undeployed():
    assert lines("create A", "tick", "delete", "tick", "fetch", "success", "tick")[3:] == [
        "ok | A* awaiting_rollout | deleted",
        "rollout | A* rollout_in_progress | deleted",
        "ok | A* active | deleted",
        "ok | A* awaiting_deprovision | poked deleted",
    ]


def test_a_deleted_failed_rollout_has_nothing_to_undeploy():
    assert last("create A", "tick", "fetch", "failed", "delete", "tick") == "ok | A* awaiting_deletion | deleted"


def test_a_deletion_removes_the_blocked_configuration_before_it_could_start():
    assert lines(*UP, "change B", "tick", "fetch", "success", "delete", "tick")[-1] == (
        "ok | A* awaiting_deletion, B awaiting_deletion | deleted"
    )


def test_an_instance_that_is_wanted_again_before_the_turn_continues():
    assert last(*UP, "delete", "create A", "tick") == "ok | A* active"


def test_an_instance_that_is_wanted_again_waits_for_its_undeployment():
    assert lines(*UP, "delete", "tick", "create A", "fetch", "success", "tick")[-4:] == [
        "ok | A* awaiting_deprovision, A blocked",
        "deprovision | A* deprovision_in_progress, A blocked",
        "ok | A* deprovisioned, A blocked",
        "ok | A deprovisioned, A* awaiting_rollout | poked",
    ]


def test_an_instance_that_is_wanted_again_after_its_deletion_starts_as_a_first_one():
    assert last(*UP, "delete", "tick", "fetch", "success", "tick", "create A") == (
        "ok | A awaiting_deletion, A* awaiting_rollout | update_available"
    )


def test_a_failed_poke_is_repeated_in_the_next_turn():
    assert lines("create A", "tick!", "tick!", "tick", "tick") == [
        "ok | A* awaiting_rollout | update_available",
        "ok | A* awaiting_rollout | poked update_available",
        "ok | A* awaiting_rollout | poked update_available",
        "ok | A* awaiting_rollout | poked",
        "ok | A* awaiting_rollout",
    ]


def test_a_poked_system_that_does_not_fetch_for_five_minutes_is_poked_again():
    poked = [step["poked"] for step in steps("create A", *["tick"] * 40)]
    assert [number for number, sent in enumerate(poked) if sent] == [1, 16, 31]


def test_a_system_without_a_callback_is_never_poked_and_polls():
    assert lines("create A", *["tick"] * 20, "list", "list", "fetch", callback=False)[-4:] == [
        "ok | A* awaiting_rollout | update_available",
        "true | A* awaiting_rollout",
        "false | A* awaiting_rollout",
        "rollout | A* rollout_in_progress",
    ]


def test_a_list_of_all_finds_announced_but_unfinished_changes():
    assert lines("create A", "list-all", "list-all", "fetch", "list-all", "success", "list-all") == [
        "ok | A* awaiting_rollout | update_available",
        "true | A* awaiting_rollout",
        "true | A* awaiting_rollout",
        "rollout | A* rollout_in_progress",
        "true | A* rollout_in_progress",
        "ok | A* active",
        "false | A* active",
    ]


def test_an_answer_in_a_wrong_state_is_a_conflict_and_changes_nothing():
    assert lines("create A", "success", "fetch", "success", "success", "failed") == [
        "ok | A* awaiting_rollout | update_available",
        "conflict | A* awaiting_rollout | update_available",
        "rollout | A* rollout_in_progress | update_available",
        "ok | A* active | update_available",
        "conflict | A* active | update_available",
        "conflict | A* active | update_available",
    ]


def test_failures_are_retried_by_operators_and_everything_else_is_refused():
    assert lines("create A", "retry", "tick", "fetch", "failed", "retry")[1:] == [
        "conflict | A* awaiting_rollout | update_available",
        "ok | A* awaiting_rollout | poked",
        "rollout | A* rollout_in_progress",
        "ok | A* rollout_failed",
        "ok | A* awaiting_rollout | update_available",
    ]
    assert last(*UP, "delete", "tick", "fetch", "failed", "retry") == (
        "ok | A* awaiting_deprovision | update_available deleted"
    )


def test_a_monitoring_system_may_fetch_a_failure_again():
    assert last("create A", "tick", "fetch", "failed", "fetch") == "rollout | A* rollout_in_progress"
    assert last(*UP, "delete", "tick", "fetch", "failed", "fetch") == (
        "delete | A* deprovision_in_progress | deleted"
    )


def test_nothing_happens_to_an_instance_that_was_never_created():
    assert lines("tick", "list", "list-all", "fetch", "success", "failed", "retry", "delete") == [
        "ok | ",
        "false | ",
        "false | ",
        "not found | ",
        "not found | ",
        "not found | ",
        "conflict | ",
        "not found | ",
    ]


def test_the_task_replaces_one_in_the_details():
    document = {"events": [{"event": "create", "details": {"task": 1, "version": 7}}, {"event": "fetch"}]}
    fetched = list(play(read_simulation("test", json.dumps(document).encode())))[-1]
    assert fetched.reply == {"task": "rollout", "version": 7}


def test_a_start_may_lack_everything_but_its_configurations():
    assert lines("tick", "fetch", start={"configurations": []}) == ["ok | ", "not found | "]
    assert last("success", start={"configurations": []}) == "conflict | "


@pytest.mark.parametrize("current", [None, 0, 1, 9])
@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize("deleted", [True, False])
def test_every_start_can_be_played_even_an_impossible_one(current, flag, deleted):
    events = [*UP, "change B", "tick!", "list", "list-all", "failed", "retry", "delete", "tick", "create C"]
    for first in CheckState:
        for second in CheckState:
            start = {
                "configurations": [
                    {"version": 3, "state": second.value, "details": {"is": "B"}},
                    {"version": 1, "state": first.value, "details": {"is": "A"}},
                ],
                "current": current,
                "update_available": flag,
                "deleted": deleted,
            }
            assert len(steps(*events, start=start)) == len(events)


@pytest.mark.parametrize("state", [state.value for state in CheckState])
def test_a_start_in_any_state_keeps_it_until_something_happens(state):
    [step] = steps("list", start=started(state, flag=True))
    assert step["configurations"] == [{"version": 0, "state": state, "details": {"is": "A"}}]
    assert step["reply"] is True
    assert step["update_available"] is False
