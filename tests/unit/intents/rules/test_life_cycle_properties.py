"""Random acts and changes of content, compared with a model of the seed's rules.

The model knows numbers instead of contents and nothing of tables. It is written from the rules alone.
"""

from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from zkdeployment.intents.documents import Approval, DeploymentIntentGroup, IntentState, UpdateRule
from zkdeployment.intents.rules.content import IntentContent
from zkdeployment.intents.rules.instances import IntentAct, IntentEffect, IntentRefusal, IntentSnapshot, perform
from zkdeployment.intents.rules.revisions import judge_change

SHOP = DeploymentIntentGroup("p1", "store", "v1", "shop", "plain", {"front": ("/front",)})
ACTS = {
    "approve": IntentAct.APPROVE,
    "instantiate": IntentAct.INSTANTIATE,
    "terminate": IntentAct.TERMINATE,
}
#: An act, or the number of a new content.
STEPS = st.lists(st.sampled_from([*ACTS, 1, 2, 3, "publish"]), max_size=12)


@dataclass
class Model:
    """The rules: what people may do, and what runs on the hosts."""

    content: int = 1
    approved: int | None = None
    state: str = "Created"
    runs: int | None = None

    def shown(self):
        return "Created" if self.state == "Approved" and self.approved != self.content else self.state

    def allows(self, act):
        match act:
            case "approve":
                return self.state != "Instantiated"
            case "instantiate":
                return self.state in {"Approved", "Terminated"} and self.approved == self.content
            case "terminate":
                return self.state == "Instantiated"

    def do(self, act):
        match act:
            case "approve":
                if self.shown() != "Approved":
                    self.state, self.approved = "Approved", self.content
            case "instantiate":
                self.state, self.runs = "Instantiated", self.content
            case "terminate":
                self.state, self.runs = "Terminated", None


def content(number):
    return IntentContent({}, {"/front": {"version": number}})


class Group:
    """The group as its document and its tree are, changed by the acts of the code."""

    def __init__(self, update) -> None:
        self.intent = replace(SHOP, update=update)
        self.number = 1

    @property
    def snapshot(self):
        return IntentSnapshot(self.intent, content(self.number))

    def do(self, act):
        """Write what the verb writes; return whether the act was accepted."""
        step = perform(self.snapshot, ACTS[act])
        if isinstance(step, IntentRefusal):
            return False
        if IntentEffect.WRITE_APPROVAL in step.effects:
            approval = Approval(content(self.number).digest, "alice", "go")
            self.intent = replace(self.intent, approval=approval)
        self.intent = replace(self.intent, state=step.state)
        return True


@given(STEPS)
def test_acts_are_accepted_and_refused_by_the_rules_and_the_published_ones_take_effect(steps):
    model, group = Model(), Group(UpdateRule.TERMINATE)
    published, runs, deployed = {SHOP.subject: group.snapshot}, None, None
    for step in steps:
        if step in ACTS:
            allowed = model.allows(step)
            assert group.do(step) is allowed
            if allowed:
                model.do(step)
        elif step == "publish":
            new = {SHOP.subject: group.snapshot}
            judgement = judge_change(published, new)
            # What runs may only change by its end: a restart with another content in one change is refused.
            restarted = runs is not None and model.runs is not None
            changed = model.runs != runs or changed_approval(published, new)
            assert bool(judgement.refusals) is (restarted and changed)
            if not judgement.refusals:
                effects = judgement.effects.get(SHOP.subject, frozenset())
                if IntentEffect.BEGIN_INSTANCE in effects:
                    assert deployed is None
                    deployed = model.content
                if IntentEffect.END_INSTANCE in effects:
                    deployed = None
                assert deployed == model.runs
                published, runs = new, model.runs
        elif model.state != "Instantiated":  # the hook refuses any other change
            model.content = group.number = step
        assert group.snapshot.state.value == model.shown()


def changed_approval(old, new):
    """Whether a group that runs before and after has another approval: it was approved again in between."""
    before, after = old[SHOP.subject], new[SHOP.subject]
    both = before.state.is_active and after.state.is_active
    return both and before.intent.approval != after.intent.approval


@given(
    st.sampled_from(["Created", "Approved", "Instantiated", "Terminated", None]),
    st.sampled_from(["Created", "Approved", "Instantiated", "Terminated", None]),
    st.integers(1, 2),
    st.integers(1, 2),
    st.sampled_from([None, 1, 2]),
    st.sampled_from([None, 1, 2]),
    st.sampled_from(UpdateRule),
    st.booleans(),
)
def test_documents_written_by_hand_are_judged_by_the_rules_alone(
    old, new, old_content, new_content, old_approved, new_approved, update, terminating
):
    before = written(old, old_content, old_approved, update)
    after = written(new, new_content, new_approved, update)
    judgement = judge_change(
        {} if before is None else {SHOP.subject: before},
        {} if after is None else {SHOP.subject: after},
        terminating=[SHOP.subject] if terminating else [],
    )
    ran, runs = old == "Instantiated", new == "Instantiated"
    if new is None:
        refused = old is not None and (ran or terminating)
    elif ran and runs:
        is_same = (old_content, old_approved) == (new_content, new_approved)
        is_update = old_content != new_content and new_approved == new_content and update is UpdateRule.APPROVE
        refused = not is_same and not is_update
    else:
        refused = runs and new_approved != new_content
    assert bool(judgement.refusals) is refused


def written(state, number, approved, update):
    if state is None:
        return None
    approval = None if approved is None else Approval(content(approved).digest, "alice", "go")
    intent = replace(SHOP, state=IntentState(state), approval=approval, update=update)
    return IntentSnapshot(intent, content(number))
