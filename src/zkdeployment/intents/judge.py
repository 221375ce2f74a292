"""Judges changes of intents by their endpoints: the published revision and the new one.

Several acts may arrive in one change. Each state can be reached from each other one by acts; only the rules below
limit that. They are looked up in the table of the life cycle.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from zkdeployment.documents.intents.values import ClusterIntents, IntentState, UpdateRule
from zkdeployment.intents.life_cycle import (
    IntentAct,
    IntentEffect,
    IntentRefusal,
    IntentSnapshot,
    LifeCycleStep,
    perform,
)
from zkdeployment.planning.targets.content import changed_keys, changed_paths

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from zkdeployment.documents.intents.values import IntentSubject
    from zkdeployment.planning.targets.content import IntentContent

#: The effects of a change on the instance of a subject, or why the change is refused.
_Outcome: TypeAlias = "frozenset[IntentEffect] | IntentRefusal"

_NO_EFFECTS: frozenset[IntentEffect] = frozenset()


@dataclass(frozen=True, slots=True)
class IntentJudgement:
    """The outcome for a change: why it is refused, or what it does to the instance of each subject."""

    refusals: tuple[IntentRefusal, ...]
    effects: Mapping[IntentSubject, frozenset[IntentEffect]]


def judge_change(
    old: Mapping[IntentSubject, IntentSnapshot] | None,
    new: Mapping[IntentSubject, IntentSnapshot],
    *,
    terminating: Collection[IntentSubject] = (),
    approved: Mapping[IntentSubject, IntentContent] = MappingProxyType({}),
) -> IntentJudgement:
    """Judge the change from the intents of one revision to those of another.

    ``old`` is ``None`` for a fleet that has never published an intent: the new ones are taken as they stand.
    ``terminating`` are the subjects of whose last instance hosts still have deployments. ``approved`` are the
    known contents that were approved before: refusals name what has changed since.
    """
    refusals: list[IntentRefusal] = []
    effects: dict[IntentSubject, frozenset[IntentEffect]] = {}
    published = {} if old is None else old
    for subject in sorted({*published, *new}):
        before, after = published.get(subject), new.get(subject)
        if old is None and after is not None:
            outcome: _Outcome = _first_effects(after)
        else:
            outcome = _judge(before, after, is_terminating=subject in terminating, approved=approved.get(subject))
        if isinstance(outcome, IntentRefusal):
            refusals.append(outcome)
        elif outcome:
            effects[subject] = outcome
    return IntentJudgement(tuple(refusals), effects)


def _first_effects(snapshot: IntentSnapshot) -> frozenset[IntentEffect]:
    return frozenset({IntentEffect.BEGIN_INSTANCE}) if snapshot.state.is_active else _NO_EFFECTS


def _judge(
    before: IntentSnapshot | None,
    after: IntentSnapshot | None,
    *,
    is_terminating: bool,
    approved: IntentContent | None,
) -> _Outcome:
    """Return the effects of the change of one subject on its instance, or why it is refused."""
    if before is not None and after is None:
        return _effects(perform(before, IntentAct.REMOVE, is_terminating=is_terminating))
    if before is not None and after is not None and before.state.is_active:
        if after.state.is_active:
            return _judge_active(before, after)
        return _effects(perform(before, IntentAct.TERMINATE))
    if after is not None and after.state.is_active:
        return _judge_beginning(before, after, approved)
    return _NO_EFFECTS


def _judge_active(before: IntentSnapshot, after: IntentSnapshot) -> _Outcome:
    """Judge a change of an intent whose services are deployed before and after it."""
    is_same = before.content.digest == after.content.digest
    keys = _changed_document_keys(before, after)
    if is_same and not keys:
        return _NO_EFFECTS
    may_update = before.intent.update is after.intent.update is UpdateRule.APPROVE
    act = IntentAct.UPDATE if may_update and not is_same else IntentAct.MODIFY
    outcome = perform(before, act, changed=after)
    if isinstance(outcome, IntentRefusal):
        return replace(outcome, paths=(*keys, *changed_paths(before.content, after.content)))
    return outcome.effects


def _judge_beginning(
    before: IntentSnapshot | None, after: IntentSnapshot, known: IntentContent | None
) -> _Outcome:
    """Judge a change after which an intent's services are deployed, and before which they were not."""
    if isinstance(after.intent, ClusterIntents):
        last = replace(after, intent=replace(after.intent, state=IntentState.CREATED))
        return _effects(perform(last, IntentAct.APPLY))
    last = replace(after, intent=replace(after.intent, state=IntentState.APPROVED))
    approval = after.intent.approval
    contents = (known, None if before is None else before.content)
    approved = next(
        (
            content
            for content in contents
            if content is not None and approval is not None and content.digest == approval.content
        ),
        None,
    )
    outcome = perform(last, IntentAct.INSTANTIATE, approved=approved)
    if isinstance(outcome, IntentRefusal) and before is not None:
        return replace(outcome, state=before.state)
    return _effects(outcome)


def _changed_document_keys(before: IntentSnapshot, after: IntentSnapshot) -> tuple[str, ...]:
    """Return the keys of the document whose values differ, sorted."""
    old, new = before.intent, after.intent
    keys = {
        "approval": old.approval != new.approval,
        "update": old.update != new.update,
        "fleet-stop": old.fleet_stop != new.fleet_stop,
    }
    changed = {key for key, is_different in keys.items() if is_different}
    return tuple(sorted({*changed, *changed_keys(before.content, after.content)}))


def _effects(outcome: LifeCycleStep | IntentRefusal) -> _Outcome:
    return outcome.effects if isinstance(outcome, LifeCycleStep) else outcome
