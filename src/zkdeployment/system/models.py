"""The updates of operating systems in the API's answer to a plan."""

from zkdeployment.service.responses import Described


class PlannedPackageBody(Described):
    """A package that an update of the operating system changes; ``before`` is null if it is added."""

    name: str
    before: str | None
    after: str | None
    security: bool


class PlannedUpdateBody(Described):
    """The estimated update of the operating system of a host; ``reboot_for`` are the packages that ask for it."""

    packages: list[PlannedPackageBody]
    updates: int
    security: int
    reboot: bool
    reboot_for: list[str]


class UpdateKindBody(Described):
    """The ids of the hosts with one kind of update; ``unknown`` is why the update is unknown.

    ``missing`` are the repositories that could not be read.
    """

    path: str
    release: str
    hosts: list[str]
    unknown: str | None
    missing: list[str]
    update: PlannedUpdateBody | None


class PlannedUpdatesBody(Described):
    """The updates of operating systems: at most 1,000 kinds, how many more there are, and the time of all."""

    hosts: int
    kinds: list[UpdateKindBody]
    more: int
    time: str | None


#: The key of the addition to a plan, and what it has.
PLAN_BODY = ("system", PlannedUpdatesBody)
