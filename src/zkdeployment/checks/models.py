"""Check configurations, instances and the messages of monitoring systems, as requests and responses."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, RootModel

from zkdeployment.checks.documents import CheckConfiguration, MonitoringSystem, OnCall
from zkdeployment.checks.rules.findings import CheckGroupState
from zkdeployment.checks.rules.instance import CheckInstance, CheckState, InstanceConfiguration
from zkdeployment.checks.rules.listing import CheckDrift, CheckInstanceView, SystemBacklog
from zkdeployment.checks.rules.monitoring_system import LONGEST_OUTPUT, CheckResult, ResultState
from zkdeployment.checks.views.wanted import CheckError
from zkdeployment.service.responses import Described, answer


class CheckDifferenceBody(Described):
    """The effect of a publication on check instances: at most 1,000 of each kind, and how many there are."""

    counts: dict[Literal["added", "changed", "removed"], int]
    added: list[dict[str, Any]]
    changed: list[dict[str, Any]]
    removed: list[dict[str, Any]]
    errors: list[dict[str, Any]]


#: The key of the addition to a plan, and what it has.
PLAN_BODY = ("checks", CheckDifferenceBody)


class CheckMetadata(BaseModel):
    """The name of a check configuration."""

    model_config = ConfigDict(extra="forbid")

    name: str


class CheckDocument(BaseModel):
    """A check configuration; the manual describes the keys of `data`."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    schema_: Annotated[Literal["zkdeployment/CheckConfiguration/v1"], Field(alias="schema")] = (
        "zkdeployment/CheckConfiguration/v1"
    )
    metadata: CheckMetadata
    data: dict[str, Any]


CHECKS = answer(
    "checks",
    text="The published check configurations and monitoring systems, by name, and the on-call duties, by node.",
    checks=list[CheckConfiguration],
    monitoring=list[MonitoringSystem],
    on_call=list[answer(None, OnCall, object=str)],  # type: ignore[misc]
)

CHECK = answer(
    "check",
    text="A published check: its document, the number of its wanted instances, those that exist, and its errors.",
    name=str,
    document=dict[str, Any],
    wanted=int,
    states=dict[str, int],
    errors=list[CheckError],
)

DRIFT = answer(
    "check-drift",
    text="Differences between what monitoring systems run and what is deployed there.",
    drift=list[CheckDrift],
)

#: A check instance with all its versions.
INSTANCE = answer(
    "check-instance",
    CheckInstanceView,
    "A check instance with all its versions.",
    current=int | None,
    notified=float | None,
    configurations=list[answer(None, InstanceConfiguration, system=None, monitoring=str)],  # type: ignore[misc]
)

INSTANCES = answer(
    "check-instances",
    text="Check instances, by check, service, host and number.",
    instances=list[CheckInstanceView],
)

ALLOWED_REMOVAL = answer(
    "allowed-removal",
    text="Until when the bridge of a monitoring system may remove many unknown checks, in epoch seconds.",
    monitoring=str,
    until=float,
)

SUMMARY = answer(
    "checks-summary",
    text="All monitoring systems, by name; ``unwritten`` are the reasons why instances could not be written.",
    monitoring=list[SystemBacklog],
    unwritten=dict[str, str],
    groups=list[CheckGroupState],
)


#: The most instances of a request.
MOST_INSTANCES = 500


class DeploymentsList(BaseModel):
    """The identifiers of check instances."""

    model_config = ConfigDict(extra="forbid")

    deploymentsList: list[str]  # noqa: N815  the name of the interface


class ActiveDeployments(DeploymentsList):
    """The check instances that are deployed, those whose removal failed, and the configuration of each of them."""

    configurations: Annotated[
        dict[str, str], Field(description="The `config_id` that is deployed, by the identifier of the instance.")
    ]
    deprovision_failed: Annotated[
        list[str], Field(description="Instances that the monitoring system could not remove.")
    ]
    removal_allowed: Annotated[
        bool, Field(description="Whether an operator allowed the removal of many checks that no list names.")
    ]

    @classmethod
    def of(cls, deployed: Mapping[str, InstanceConfiguration], *, removal_allowed: bool) -> "ActiveDeployments":
        """Return the model of deployed configurations, given by instance."""
        instances = sorted(deployed)
        return cls(
            deploymentsList=[found for found in instances if deployed[found].state is CheckState.ACTIVE],
            configurations={found: deployed[found].config_id for found in instances},
            deprovision_failed=[found for found in instances if deployed[found].state is not CheckState.ACTIVE],
            removal_allowed=removal_allowed,
        )


class DeploymentDetails(BaseModel):
    """A check instance for a monitoring system: the details of the check, and the task."""

    model_config = ConfigDict(extra="allow")

    task: Literal["rollout", "deprovision", "delete"]


class DeploymentAnswer(BaseModel):
    """The result of a deployment. With ``config_id``, it counts only for that configuration."""

    model_config = ConfigDict(extra="forbid")

    config_id: str | None = None
    reason: Annotated[str | None, Field(max_length=100_000)] = None


class FetchedInstances(BaseModel):
    """The identifiers of check instances that are fetched with one request."""

    model_config = ConfigDict(extra="forbid")

    deploymentsList: Annotated[list[str], Field(max_length=MOST_INSTANCES)]  # noqa: N815  the name of the interface


class FetchedDeployments(BaseModel):
    """The tasks for instances; why there is nothing to do for others; and why others could not be changed."""

    model_config = ConfigDict(extra="forbid")

    deployments: dict[str, DeploymentDetails]
    missing: dict[str, str]
    failed: dict[str, str]


class OneAnswer(DeploymentAnswer):
    """The result of one of several deployments."""

    result: Literal["success", "failed"]


class DeploymentAnswers(RootModel[Annotated[dict[str, OneAnswer], Field(max_length=MOST_INSTANCES)]]):
    """The results of deployments, by the identifiers of their instances."""


class AnsweredDeployment(BaseModel):
    """The configuration that a monitoring system answered, and its state afterwards."""

    model_config = ConfigDict(extra="forbid")

    id: str
    config_id: str
    version: int
    state: str

    @classmethod
    def of(cls, instance: CheckInstance) -> "AnsweredDeployment":
        """Return the model of an instance that was answered."""
        current = instance.current_configuration
        assert current is not None  # noqa: S101  only a configuration in progress is answered
        return cls(id=instance.id, config_id=current.config_id, version=current.version, state=current.state.value)


class AnsweredDeployments(BaseModel):
    """The instances that were answered; why answers were refused (treat them as done); and what failed."""

    model_config = ConfigDict(extra="forbid")

    answered: dict[str, AnsweredDeployment]
    refused: dict[str, str]
    failed: dict[str, str]


def _lower_case(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


class ReportedResult(BaseModel):
    """The result of a check: the state, the output, and the time at which the check came into the state."""

    model_config = ConfigDict(extra="forbid")

    state: Annotated[ResultState, BeforeValidator(_lower_case)]
    output: str = ""
    since: Annotated[float, Field(ge=0, le=2**40, description="In seconds since the epoch.")]
    checked: Annotated[
        float | None, Field(ge=0, le=2**40, description="When the check ran, in seconds since the epoch.")
    ] = None
    config_id: Annotated[str | None, Field(max_length=100, description="The configuration that ran.")] = None

    def result(self, now: float) -> CheckResult:
        """Return the stored form of the result."""
        output = self.output[:LONGEST_OUTPUT]
        return CheckResult(self.state, output, self.since, now, self.checked, self.config_id)


class ReportedResults(RootModel[dict[str, ReportedResult]]):
    """The results that changed, by the identifiers of their instances; without any, a sign of life."""


class RecordedResults(BaseModel):
    """The instances whose results were not recorded: of other systems, of other configurations, or unknown."""

    model_config = ConfigDict(extra="forbid")

    ignored: list[str]


class HostsAtWork(BaseModel):
    """The hosts whose checks may fail: those in a deployment step or in maintenance."""

    model_config = ConfigDict(extra="forbid")

    hosts: list[str]
