"""The invariants of the workflow: random events on one instance and its monitoring systems."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from support.checks.instances import KEY, wanted
from zkdeployment.checks.rules.instance import CheckInstance, CheckState
from zkdeployment.checks.rules.workflow import (
    CheckRefusal,
    answer,
    delete,
    fetch,
    is_poke_due,
    life_cycle_turn,
    list_flagged,
    list_open,
    poke_succeeded,
    retry,
    want,
)

#: The sets of states of which an instance has at most one configuration.
SINGLE = [
    {CheckState.ACTIVE},
    {CheckState.ROLLOUT_IN_PROGRESS},
    {
        CheckState.AWAITING_DEPROVISION,
        CheckState.DEPROVISION_IN_PROGRESS,
        CheckState.DEPROVISION_FAILED,
    },
    {CheckState.BLOCKED},
    {CheckState.AWAITING_COMPUTATION, CheckState.COMPUTED},
]

WANTED = st.builds(wanted, st.sampled_from("AB"), st.sampled_from(["nagios1", "nagios2"]))
REQUESTS = ["fetch", "fetch", "success", "success", "failed", "late success", "list", "list-all", "retry"]
EVENTS = st.one_of(
    st.tuples(st.sampled_from(["want", "want early"]), WANTED),
    st.tuples(st.sampled_from(["delete", "tick", "tick", "tick, poke fails", *REQUESTS]), st.none()),
)
#: Long enough that most histories come around to every state.
HISTORY = st.lists(EVENTS, min_size=12, max_size=60)


@dataclass
class Course:
    """An instance, the time, the acts of its monitoring systems, and all details that were ever computed."""

    instance: CheckInstance = field(default_factory=lambda: CheckInstance(KEY))
    now: float = 0.0
    done: list[tuple[str, int]] = field(default_factory=list)
    details: dict[int, object] = field(default_factory=dict)
    poked: bool = False

    def play(self, event, argument=None):
        """Let an event happen, and check what must hold after each of them."""
        self.poked = False
        match event:
            case "want" | "want early":
                self.instance = want(self.instance, argument, self.now, is_reported=event == "want")
            case "delete":
                self.instance = delete(self.instance, self.now)
            case "tick" | "tick, poke fails":
                self._tick(succeeds=event == "tick")
            case "fetch":
                self._fetch()
            case "success" | "failed":
                self._answer(is_success=event == "success")
            case "late success":
                assert isinstance(
                    answer(self.instance, is_success=True, now=self.now, config_id="another"), CheckRefusal
                )
            case "list":
                self.instance, _ = list_flagged(self.instance, self.now)
            case "list-all":
                self.instance, _ = list_open(self.instance, self.now)
            case "retry":
                result = retry(self.instance, self.now)
                self.instance = self.instance if isinstance(result, CheckRefusal) else result
        self._check()

    def _tick(self, *, succeeds):
        self.now += 20
        self.instance = life_cycle_turn(self.instance, self.now)
        assert life_cycle_turn(self.instance, self.now) is self.instance
        self.poked = is_poke_due(self.instance, self.now)
        if self.poked and succeeds:
            self.instance = poke_succeeded(self.instance, self.instance.flag, self.now)

    def _fetch(self):
        fetched = fetch(self.instance, self.now)
        if fetched is not None:
            self.instance = fetched[0]
            again = fetch(self.instance, self.now + 1)
            assert again is not None
            assert again[0] == self.instance
            assert again[1].to_json() == fetched[1].to_json()

    def _answer(self, *, is_success):
        answered = answer(self.instance, is_success=is_success, now=self.now)
        if isinstance(answered, CheckRefusal):
            return
        assert isinstance(answer(answered, is_success=is_success, now=self.now), CheckRefusal)
        self.instance = answered
        current = answered.current_configuration
        assert current is not None
        if is_success:
            self.done.append(("deploy" if current.state is CheckState.ACTIVE else "undeploy", current.version))

    def _check(self):
        for states in SINGLE:
            assert sum(found.state in states for found in self.instance.configurations) <= 1, states
        for found in self.instance.configurations:
            if found.state not in {CheckState.AWAITING_COMPUTATION, CheckState.COMPUTED}:
                assert self.details.setdefault(found.version, found.details) == found.details
        versions = [found.version for found in self.instance.configurations]
        assert versions == sorted(set(versions))

    def finish(self):
        """Let the monitoring system start again, and answer its pokes until there is no further event."""
        self.play("retry")
        self.play("list-all")
        self.play("fetch")
        self.play("success")
        for _ in range(100):
            self.play("tick")
            if self.poked:
                self.play("fetch")
                self.play("success")

    @property
    def states(self):
        """The states of all configurations."""
        return [found.state for found in self.instance.configurations]


def played(events):
    course = Course()
    for event, argument in events:
        course.play(event, argument)
    return course


@given(HISTORY)
def test_between_two_active_configurations_the_first_is_undeployed_once_before_the_second_is_deployed(events):
    done = played(events).done
    assert len(set(done)) == len(done), done
    deployed = None
    for task, number in done:
        if task == "deploy":
            assert deployed is None, done
            deployed = number
        else:
            assert deployed in {None, number}, done
            deployed = None


@given(HISTORY)
def test_every_deleted_instance_ends_in_awaiting_deletion_once_its_system_answers(events):
    course = played([*events, ("delete", None)])
    course.finish()
    assert set(course.states) <= {CheckState.AWAITING_DELETION}
    assert not course.poked


@given(HISTORY, WANTED)
def test_finally_exactly_the_wanted_checks_are_active(events, wish):
    course = played([*events, ("want", wish)])
    course.finish()
    newest = course.instance.newest
    assert newest is not None
    assert (newest.state, newest.details, newest.system) == (CheckState.ACTIVE, wish.details, wish.system)
    assert course.instance.current == newest.version
    assert set(course.states) <= {CheckState.ACTIVE, CheckState.DEPROVISIONED, CheckState.AWAITING_DELETION}
    assert not course.poked


@given(HISTORY)
def test_only_instances_with_something_to_fetch_are_poked(events):
    course = Course()
    for event, argument in events:
        course.play(event, argument)
        if course.poked:
            assert fetch(course.instance, course.now) is not None
