"""The acts on the records of hosts; the acts on the whole fleet are in ``acts``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zkdeployment.base.act import ActRight
from zkdeployment.service.act import PlannedAct, given

if TYPE_CHECKING:
    from zkdeployment.base.act import Act
    from zkdeployment.fleet.operator import OperatorAdapters
    from zkdeployment.service.act import Actor

#: The most hosts of one act, whose records are removed in one transaction.
_MOST_HOSTS = 100


@dataclass(frozen=True, kw_only=True)
class ForgetHosts(PlannedAct["OperatorAdapters"]):
    """Remove the records of hosts that are gone for good: all of them, or none if one is refused."""

    RIGHT = ActRight("forget hosts")
    PATH = "forget"
    OPERATION = "forget"
    REQUEST = """The removal of the records of hosts that are gone for good, named by their ids or names.

With ``force``, hosts are forgotten although no other host runs what the tree deploys to them."""
    NEEDS_REASON = False
    ADAPTERS = "operator"

    hosts: list[str] = given(least=1, most=_MOST_HOSTS, length=500)  # noqa: RUF009  a field
    force: bool = given(default=False)

    def perform(self, adapters: OperatorAdapters, actor: Actor) -> Act:
        """Forget the hosts; raises what ``forget_hosts`` raises."""
        from zkdeployment.fleet.store.forgetting import forget_hosts  # noqa: PLC0415  other acts need none

        words = ("forget", ", ".join(self.hosts), "--force" if self.force else "")
        act = actor.record(self, " ".join(filter(None, words)))
        forget_hosts(adapters.session, adapters.fleet, self.hosts, act, force=self.force)
        return act
