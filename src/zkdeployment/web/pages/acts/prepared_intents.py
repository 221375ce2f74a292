"""The acts that forms offer on intents: what each covers, and what hosts would do, computed by a dry run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from zkdeployment.documents.intents.values import IntentState, parse_subject
from zkdeployment.errors import NotFoundError, TreeError
from zkdeployment.intents.comparison import compare_before_approval
from zkdeployment.intents.edits import find_intent, with_state
from zkdeployment.intents.life_cycle import IntentAct
from zkdeployment.model.commits import FileChanges
from zkdeployment.model.user import ActKind
from zkdeployment.planning.review import review
from zkdeployment.planning.targets.content import service_content
from zkdeployment.web import intent_acts
from zkdeployment.web.acts import require_commits
from zkdeployment.web.pages.acts.prepared_act import PreparedAct
from zkdeployment.web.views.intents.acts import FORM_ACTS, intent_form, intent_paths, intent_rollback_form
from zkdeployment.web.views.intents.governance import (
    adoption_form,
    requested_adoption,
    service_release_form,
)
from zkdeployment.web.views.intents.previews import (
    content_details,
    service_details,
    with_approved_content,
)
from zkdeployment.web.views.plan import plan_view, refused_plan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zkdeployment.documents.intents.values import Intent, IntentSubject
    from zkdeployment.intents.instances import IntentRecord
    from zkdeployment.model.source_files import SourceFile
    from zkdeployment.model.user import User
    from zkdeployment.ports.server import ServerAdapters
    from zkdeployment.web.planner import RevisionPlanner
    from zkdeployment.web.views.acts import ActForm
    from zkdeployment.web.views.plan import PlanView

_NO_INSTANCE = "There is no such instance: expected one that the page of the intent lists."
_APPROVED = "The content at the tip of the branch is approved already."


@dataclass(frozen=True, slots=True)
class PreparedIntentActs:
    """Prepares the acts on intents; ``values`` are the fields of a form."""

    adapters: ServerAdapters
    planner: RevisionPlanner
    values: Mapping[str, str]

    @property
    def by_name(self) -> Mapping[str, Callable[[], PreparedAct]]:
        """The functions that prepare the acts, by the names of their forms."""
        acts = {name: lambda act=act: self._act(act) for name, act in FORM_ACTS.items()}
        return {
            **acts,
            "intent-adopt": self._adopt,
            "intent-release": self._release,
            "intent-rollback": self._roll_back,
        }

    def _act(self, act: IntentAct) -> PreparedAct:
        adapters = self.adapters
        subject = tuple(self.values.get("subject", "").split("/"))
        record = intent_acts.find_record(adapters, subject)
        form = intent_form(record, act, signed=intent_acts.approvals_are_signed(adapters))

        def perform(user: User, reason: str) -> object:
            content = self.values.get("content") or None
            return intent_acts.act_on_intent(adapters, user, subject, act, reason, content=content)

        def preview(user: User) -> ActForm:
            is_approval = act is IntentAct.APPROVE
            if is_approval:
                tip = self.planner.intent_overview(adapters, subject).snapshot
                if tip.is_approved and tip.state is not IntentState.TERMINATED:
                    return replace(form, objection=_APPROVED)
            outcome = intent_acts.preview_act(adapters, user, subject, act)
            if not is_approval:
                return replace(form, plan=self._plan(outcome.files))
            return self._with_content(form, record, subject, outcome.files)

        paths = intent_paths(record.intent)
        return PreparedAct(form, perform, ActKind.ACT_ON_INTENT, paths, shows_job=True, preview=preview)

    def _adopt(self) -> PreparedAct:
        adapters = self.adapters
        require_commits(adapters)
        subject = parse_subject(self.values.get("subject", "").strip())
        new = requested_adoption(subject, self.values)
        known = new or self._at_tip(subject)
        form = adoption_form(known, self.values)

        def perform(user: User, reason: str) -> object:
            content = self.values.get("content") or None
            return intent_acts.adopt(adapters, user, subject, reason, intent=new, content=content)

        def preview(user: User) -> ActForm:
            outcome = intent_acts.preview_adoption(adapters, user, subject, new)
            return self._with_content(form, None, subject, outcome.files)

        paths = intent_paths(known)
        return PreparedAct(form, perform, ActKind.ACT_ON_INTENT, paths, shows_job=True, preview=preview)

    def _release(self) -> PreparedAct:
        adapters, path = self.adapters, self.values.get("path", "")
        left = [one for one in adapters.feed.left() if one.path == path]
        if not left:
            raise NotFoundError(
                f"{path or 'no path'} is not among the services that left the governance of an intent"
            )
        form = service_release_form(left)

        def perform(user: User, reason: str) -> object:
            contents = self.values.get("contents", "").split()
            return intent_acts.release(adapters, user, [path], reason, contents=contents)

        def preview(user: User) -> ActForm:
            outcome = intent_acts.preview_release(adapters, user, [path])
            if not outcome.changed:
                return replace(form, objection="It is released already; the syncer has not published that yet.")
            tree = review(outcome.files).linted.tree
            contents = {one.target: service_content(path, one.target, tree) for one in left}
            digests = " ".join(dict.fromkeys(content.digest for content in contents.values()))
            return replace(
                form,
                fields=(*form.fields, ("contents", digests)),
                details=tuple(service_details(contents)),
                plan=self._plan(outcome.files),
            )

        return PreparedAct(form, perform, ActKind.ACT_ON_INTENT, (path,), shows_job=True, preview=preview)

    def _roll_back(self) -> PreparedAct:
        adapters = self.adapters
        subject, number = tuple(self.values.get("subject", "").split("/")), self.values.get("instance", "")
        record = intent_acts.find_record(adapters, subject)
        instance = next((one.id for one in record.instances if str(one.id) == number), 0)
        form = intent_rollback_form(record, instance, signed=intent_acts.approvals_are_signed(adapters))
        if not instance:
            form = replace(form, objection=_NO_INSTANCE)

        def perform(user: User, reason: str) -> object:
            return intent_acts.roll_back(adapters, user, subject, instance, reason)

        def preview(user: User) -> ActForm:
            outcome = intent_acts.preview_rollback(adapters, user, subject, instance)
            if not outcome.changed:
                return replace(form, objection=_APPROVED)
            return self._with_content(form, record, subject, outcome.files)

        paths = intent_paths(record.intent)
        return PreparedAct(form, perform, ActKind.ACT_ON_INTENT, paths, shows_job=True, preview=preview)

    def _at_tip(self, subject: IntentSubject) -> Intent:
        return self.planner.intent_overview(self.adapters, subject).intent

    def _with_content(
        self, form: ActForm, record: IntentRecord | None, subject: IntentSubject, files: Sequence[SourceFile]
    ) -> ActForm:
        """Return a form with the content that it approves, what is new in it, and the plan of hosts."""
        placed = find_intent(files, subject)
        instantiated = files
        if not placed.intent.state.is_active:
            changes = with_state(placed, IntentState.INSTANTIATED)
            instantiated = FileChanges(changes, "").apply(files)
        details = content_details(compare_before_approval(record, placed.snapshot))
        return replace(
            with_approved_content(form, placed.snapshot), details=tuple(details), plan=self._plan(instantiated)
        )

    def _plan(self, files: Sequence[SourceFile]) -> PlanView:
        try:
            predicted, checks = self.planner.plan_files(self.adapters, files, "the act")
        except TreeError as error:
            return refused_plan(str(error))
        return plan_view(predicted.forecast, predicted.warnings, predicted.packages, checks)
