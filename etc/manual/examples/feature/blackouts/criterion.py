"""The criterion of rollouts: no group gets its verdict while a blackout is in force."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blackouts.documents import BLACKOUT, in_force
from zkdeployment.publishing.store.documents import read_published_documents
from zkdeployment.strategies.criteria import Judgement, OutsideCriterion

if TYPE_CHECKING:
    from collections.abc import Callable

    from zkdeployment.config.settings import Settings
    from zkdeployment.strategies.state import RolloutState
    from zkdeployment.zookeeper.session import Session


def blackout_criterion(
    _settings: Settings, session: Session, _lead: Callable[[], str | None], _wake: Callable[[], None]
) -> OutsideCriterion:
    """Return the criterion, which reads the published blackouts in each cycle of a coordinator."""

    def read(_state: RolloutState, now: float) -> Judgement:
        found = in_force(read_published_documents(session, [BLACKOUT.name]).of(BLACKOUT).values(), now)
        return Judgement() if found is None else Judgement(is_pending=True, moments=(found.until,))

    return OutsideCriterion(BLACKOUT.name, lambda: None, lambda: None, read)
