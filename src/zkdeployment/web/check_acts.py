"""Acts of users on checks: commits that change configurations, and retries of failed instances.

Each act raises ``ForbiddenError`` if the paths of the user do not permit it, ``NotFoundError`` for an unknown
check or instance, and ``RefusedError`` if the service has no repository.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from zkdeployment.acts.check_configurations import change_check, create_checks, delete_check
from zkdeployment.checks.edits import check_content
from zkdeployment.checks.overview import read_instance_id
from zkdeployment.documents.checks.kinds import CHECK
from zkdeployment.model.act import sanitize
from zkdeployment.model.user import ActKind
from zkdeployment.web.acts import check_right, new_act, require_commits

if TYPE_CHECKING:
    from zkdeployment.checks.instance import CheckInstance
    from zkdeployment.model.commits import CommitOutcome
    from zkdeployment.model.user import User
    from zkdeployment.ports.server import ServerAdapters


def create(adapters: ServerAdapters, user: User, name: str, data: object, reason: str) -> CommitOutcome:
    """Add the document of a new configuration; raises ``TreeError`` with the faults of ``data``."""
    content = check_content(name, data)
    _permit(user, CHECK.parse(content).path)
    commits = require_commits(adapters)
    return create_checks(commits, {(CHECK.name, name): content}, commits.author(user.name), sanitize(reason))


def replace(adapters: ServerAdapters, user: User, name: str, data: object, reason: str) -> CommitOutcome:
    """Give a configuration other values; raises ``TreeError`` with the faults of ``data``."""
    content = check_content(name, data)
    _permit(user, CHECK.parse(content).path)
    commits = require_commits(adapters)
    author, permit = commits.author(user.name), partial(_permit, user)
    return change_check(commits, name, content, author, sanitize(reason), permit=permit)


def remove(adapters: ServerAdapters, user: User, name: str, reason: str) -> CommitOutcome:
    """Remove the document of a configuration."""
    commits = require_commits(adapters)
    author, permit = commits.author(user.name), partial(_permit, user)
    return delete_check(commits, name, author, sanitize(reason), permit=permit)


def retry(adapters: ServerAdapters, user: User, text: str, reason: str) -> CheckInstance:
    """Let the monitoring system try a failed instance again; return the instance afterwards."""
    instance = adapters.operator_checks.find(read_instance_id(text))
    _permit(user, instance.key.path)
    act = new_act(adapters, user, f"checks retry {instance.id}", reason)
    (changed,) = adapters.operator_checks.retry([instance], act)
    return changed


def abandon(adapters: ServerAdapters, user: User, system: str, reason: str) -> tuple[CheckInstance, ...]:
    """End the instances of a monitoring system that is gone; return them afterwards. Only for the whole fleet."""
    _permit(user, "")
    act = new_act(adapters, user, f"checks abandon --system {system}", reason)
    return adapters.operator_checks.abandon(system, act)


def allow_removal(adapters: ServerAdapters, user: User, system: str, reason: str) -> float:
    """Allow the bridge of a monitoring system to remove many unknown checks; return until when."""
    _permit(user, "")
    act = new_act(adapters, user, f"checks allow-removal --system {system}", reason)
    return adapters.operator_checks.allow_removal(system, act)


def _permit(user: User, path: str) -> None:
    """Raise ``ForbiddenError`` unless a user may act on the checks of a node; the root is the whole fleet."""
    check_right(user, ActKind.ACT_ON_CHECK, *filter(None, (path,)))
