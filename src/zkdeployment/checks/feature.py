"""The contributions of checks to the frames."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from zkdeployment.base.features import Feature

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from fastapi import APIRouter

    from zkdeployment.base.act import Act
    from zkdeployment.cli.verb_group import LazyVerb
    from zkdeployment.config.settings import Settings
    from zkdeployment.documents.kinds import DocumentKind
    from zkdeployment.fleet.explanations.explanation import HostFinding
    from zkdeployment.fleet.feed.fleet_assembly import FeedPart
    from zkdeployment.fleet.operator import OperatorAdapters
    from zkdeployment.fleet.views.fleet_health import JudgeAlarms
    from zkdeployment.fleet.views.forecast import PlanAddition, Prediction, PredictionBasis
    from zkdeployment.publishing.rules.review import Review, ReviewRule
    from zkdeployment.service.users.user import User
    from zkdeployment.service.users.user_store import ZooKeeperUsers
    from zkdeployment.strategies.state import OutsideCriterion
    from zkdeployment.zookeeper.session import Session


def _document_kinds() -> tuple[DocumentKind[Any], ...]:
    from zkdeployment.checks.documents.kinds import CHECK, CHECK_GROUP, ON_CALL, SYSTEM

    return SYSTEM, CHECK, CHECK_GROUP, ON_CALL


def _review_rules() -> tuple[ReviewRule, ...]:
    from zkdeployment.checks.documents.kinds import check_problems

    return (lambda documents, tree, _targets: check_problems(documents, tree),)


def _api_routers() -> tuple[APIRouter, ...]:
    from zkdeployment.checks.api import checks, deployments

    return checks.router, deployments.router


def _page_routers() -> tuple[APIRouter, ...]:
    from zkdeployment.checks import pages

    return (pages.router,)


def _verbs() -> Mapping[str, LazyVerb]:
    from zkdeployment.cli.verb_group import LazyVerb

    return {
        "checks": LazyVerb("checks.verbs.checks", "Show and change checks, the monitoring of services."),
        "nagios": LazyVerb("checks.program", "Run the bridge of a Nagios in the foreground.", "nagios"),
    }


def _feed_parts() -> tuple[FeedPart[Any], ...]:
    from zkdeployment.checks.feed import CHECKS_PART

    return (CHECKS_PART,)


def _alarms(session: Session, now: float) -> JudgeAlarms:
    from zkdeployment.checks.opening import check_adapters
    from zkdeployment.checks.rules.alarms import check_alarms

    return partial(check_alarms, check_adapters(session).summary(now))


def _criterion(settings: Settings, session: Session, lead: Callable[[], str | None]) -> OutsideCriterion:
    from zkdeployment.checks.daemon.check_daemon import check_criterion

    return check_criterion(settings, session, lead)


def _plan_addition(reviewed: Review, basis: PredictionBasis, predicted: Prediction) -> PlanAddition:
    from zkdeployment.checks.views.wanted import planned_difference
    from zkdeployment.fleet.views.forecast import PlanAddition

    found = planned_difference(reviewed, basis, predicted)
    return PlanAddition("checks", found.to_json(), tuple(found.describe()), bool(found))


def _host_findings(
    operator: OperatorAdapters, hosts: Collection[str], now: float, path: str | None
) -> Sequence[HostFinding]:
    from zkdeployment.checks.opening import host_findings

    return host_findings(operator, hosts, now, path)


def _finding_body() -> Any:
    from zkdeployment.checks.rules.overview import CheckInstanceView

    return CheckInstanceView


def _retire_user(operator: OperatorAdapters, user: User, users: ZooKeeperUsers, act: Act) -> Sequence[str] | None:
    from zkdeployment.checks.opening import retire_monitoring

    return retire_monitoring(operator, user, users, act)


FEATURE = Feature(
    host_findings=_host_findings,
    finding_body=_finding_body,
    retire_user=_retire_user,
    criterion=_criterion,
    document_kinds=_document_kinds,
    review_rules=_review_rules,
    plan_addition=_plan_addition,
    api_routers=_api_routers,
    page_routers=_page_routers,
    verbs=_verbs,
    feed_parts=_feed_parts,
    alarms=_alarms,
)
