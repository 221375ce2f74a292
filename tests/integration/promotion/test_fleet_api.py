"""The answers of a fleet's service to a promoter, its state and dry runs of commits, through the real client."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import httpx
import pytest

from support.certificates import CERTIFICATES
from support.keys import make_key
from support.service import DESCRIBED, RunningService, running_service
from support.waiting import wait_until
from support.web.servers import silent_server
from zkdeployment.base.act import Act
from zkdeployment.base.errors import RefusedError, ServiceError, TreeError
from zkdeployment.config.settings import load
from zkdeployment.promotion import services
from zkdeployment.promotion.records import FleetReport, FleetState
from zkdeployment.promotion.services import (
    FleetPlan,
    FleetService,
    FleetServices,
    ServiceClient,
    act_everywhere,
    ask_dry_run,
    ask_plan,
)
from zkdeployment.service.users.user import NewUser, Role

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from support.hosts.repositories import PaperRepository
    from support.publishing import Publishing


def tree(version: str, hosts: int = 1) -> str:
    names = "".join(f"      /h{number}\n" for number in range(1, hosts + 1))
    return f"/demo\n  /hello : shop\n    version = '{version}'\n    /deploy\n{names}"


class Fleet:
    """A fleet with its service, and a promoter that has its keys."""

    def __init__(self, service: RunningService, publishing: Publishing, tokens: Path) -> None:
        self.service = service
        self.publishing = publishing
        self.tokens = tokens
        self.client = ServiceClient(tokens)
        self.admit(*service.add_user(Role.VIEWER))

    def admit(self, name: str, key: str) -> None:
        """Write the key file of the fleet."""
        file = self.tokens / "eu-1"
        file.write_text(f"{name}:{key} 127.0.0.1\n")
        file.chmod(0o600)

    def dry_run(self, commit: str) -> str:
        """Return the refusal of a commit, empty for one that the syncer accepts."""
        return ask_dry_run(self.client, FleetService("eu-1", self.service.url), commit).refusal

    def plan(self, commit: str) -> FleetPlan:
        """Return the plan of a commit."""
        return ask_plan(self.client, FleetService("eu-1", self.service.url), commit)

    def report(self, is_wanted: Callable[[FleetReport], object] = lambda _: True) -> FleetReport:
        """Return the report of the fleet, once it is the wanted one."""
        services = FleetServices(self.client, self.service.adapters.clock, lambda: None, interval=0.01)
        found: list[FleetReport] = []

        def arrived() -> bool:
            found.extend(services.reports({"eu-1": self.service.url}).values())
            return bool(found) and bool(is_wanted(found[-1]))

        wait_until(arrived, "the report of the fleet")
        return found[-1]


@pytest.fixture
def configured(tmp_path: Path, zookeeper: str, publishing: Publishing) -> Callable[..., Path]:
    def write(*lines: str) -> Path:
        file = tmp_path / "service.cfg"
        sync = (
            f"url = {publishing.repository.url}",
            f"tree-directory = {tmp_path}/mirror",
            "branch = fleets/eu-1",
        )
        file.write_text("\n".join((f"[zkdeployment]\nzookeeper = {zookeeper}\n[sync]", *sync, *lines, "")))
        return file

    return write


@pytest.fixture
def fleet(
    zookeeper: str, configured: Callable[..., Path], publishing: Publishing, tmp_path: Path
) -> Iterator[Fleet]:
    """A fleet with four hosts that follows the branch fleets/eu-1, which is behind main."""
    tokens = tmp_path / "tokens"
    tokens.mkdir()
    first = publishing.push(tree("1.0", hosts=4))
    publishing.repository.git("branch", "fleets/eu-1")
    publishing.sync()
    for number in range(1, 5):
        publishing.register(f"h{number}", first, f"h{number}.example", since=1000.0 + number)
    with running_service(zookeeper, repository=load(configured(), host=False)) as service:
        yield Fleet(service, publishing, tokens)


def test_a_converged_fleet_reports_its_revision_and_its_hosts(fleet: Fleet):
    report = fleet.report()
    assert (report.state, report.revision) == (FleetState.CONVERGED, fleet.publishing.version)
    assert (report.hosts, report.converged, report.by, report.problem, report.refused) == (4, 4, "", "", None)
    assert report.since is not None
    assert abs(report.read_at - time.time()) < 300


def test_an_unchanged_report_is_answered_without_a_body(fleet: Fleet):
    login = tuple((fleet.tokens / "eu-1").read_text().split()[0].split(":"))
    url = f"{fleet.service.url}/api/v1/fleet"
    with httpx.Client(auth=login, timeout=None, verify=CERTIFICATES, event_hooks=DESCRIBED) as client:
        first = client.get(url)
        assert first.json()["schema"] == "zkdeployment/fleet/v1"
        assert len(first.content) < 500
        again = client.get(url, headers={"If-None-Match": first.headers["ETag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert client.get(url, headers={"If-None-Match": '"other"'}).status_code == 200
        assert httpx.get(url, verify=CERTIFICATES, timeout=None).status_code == 401


def test_a_fleet_that_an_operator_stops_or_holds_names_the_operator_and_the_reason(fleet: Fleet):
    viewer = (fleet.tokens / "eu-1").read_text()
    services = {"eu-1": fleet.service.url}
    (refused,) = act_everywhere(fleet.client, services, "stop", "a storm")
    assert "refuses the key in" in refused.problem
    assert "(status 403)" in refused.problem
    fleet.admit(*fleet.service.add_user(Role.OPERATOR, "anna"))
    for act, state in (("hold", FleetState.HELD), ("stop", FleetState.STOPPED)):
        (outcome,) = act_everywhere(fleet.client, services, act, "a storm")
        assert outcome.problem == ""
        report = fleet.report(lambda report, state=state: report.state is state)
        assert report.by == "anna"
        assert "by anna: a storm" in report.problem
        assert report.revision is not None
        assert abs((report.since or 0) - time.time()) < 300
    assert act_everywhere(fleet.client, services, "resume", "it is over")[0].problem == ""
    assert fleet.report(lambda report: report.state is FleetState.CONVERGED).by == ""
    (outcome,) = act_everywhere(fleet.client, services, "resume", "again")
    assert "answered with status 409: the cluster is neither stopped nor held" in outcome.problem
    assert viewer


def test_a_fleet_that_resumes_at_its_tip_waits_for_its_syncer(fleet: Fleet, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(services, "_PUBLICATION", 0.2)
    place = {"eu-1": fleet.service.url}
    fleet.admit(*fleet.service.add_user(Role.OPERATOR))
    act_everywhere(fleet.client, place, "stop", "web 1.3 loses sessions")
    (outcome,) = act_everywhere(fleet.client, place, "resume", "rolled back", latest=True)
    assert "no syncer published within 0.2 s" in outcome.problem
    assert fleet.publishing.version is None


def test_a_fleet_that_rolls_out_or_refuses_its_tip_says_so(fleet: Fleet):
    publishing = fleet.publishing
    second = publishing.push(tree("1.1", hosts=4))
    publishing.sync()
    report = fleet.report(lambda report: report.revision == second)
    assert (report.state, report.hosts, report.converged) == (FleetState.ROLLING_OUT, 4, 0)
    publishing.put("/hosts/h1", {"name": "h1.example", "version": None, "error": "no hello"})
    assert fleet.report(lambda report: report.problem).problem == "h1.example failed: no hello"
    for number in range(1, 5):
        publishing.put(f"/hosts/h{number}", {"name": f"h{number}.example", "version": second})
    fleet.report(lambda report: report.state is FleetState.CONVERGED)
    bad = publishing.push("/demo\n  nonsense\n")
    with pytest.raises(TreeError):
        publishing.sync()
    report = fleet.report(lambda report: report.state is FleetState.REFUSED)
    assert (report.refused, report.revision) == (bad, second)
    assert report.problem.startswith(f"the syncer refuses {bad[:12]}: a.zk:2:3: ")


def test_an_expired_key_is_named_with_its_file(fleet: Fleet):
    new = NewUser(name="old", role=Role.VIEWER, key_expires_at=time.time() + 0.2)
    issued = fleet.service.adapters.users.add(new, Act("tests", "user", "a test", 0.0))
    fleet.admit(issued.user.name, issued.key)
    report = fleet.report(lambda report: report.problem)
    assert report.state is FleetState.UNREACHABLE
    assert report.problem.startswith(
        f"the service at {fleet.service.url} refuses the key in {fleet.tokens}/eu-1 (status 401): "
    )
    assert "expired" in report.problem


def test_any_commit_of_the_repository_is_tried_in_any_state_of_the_fleet(fleet: Fleet):
    """The fleet follows its own branch, which does not have the commit yet."""
    second = fleet.publishing.push(tree("1.1", hosts=4))
    assert fleet.dry_run(second) == ""
    fleet.publishing.put("/hosts/h1", {"name": "h1.example", "version": None, "error": "it is broken"})
    fleet.admit(*fleet.service.add_user(Role.OPERATOR))
    act_everywhere(fleet.client, {"eu-1": fleet.service.url}, "stop", "a storm")
    assert fleet.dry_run(second) == ""
    before = fleet.publishing.version
    assert before is None, "a dry run publishes nothing"


def test_a_commit_that_the_syncer_would_refuse_has_all_reasons(fleet: Fleet):
    publishing = fleet.publishing
    broken = publishing.push(tree("1.1", hosts=4) + "  nonsense\n  x = open('f')\n")
    refusal = fleet.dry_run(broken)
    assert "a.zk:9:3: " in refusal, refusal
    assert "; a.zk:10:7: " in refusal
    few = publishing.push(tree("1.1").partition("    /deploy")[0])
    assert "would end 4 of 4 deployments" in fleet.dry_run(few)
    with pytest.raises(RefusedError, match="would end 4 of 4 deployments"):
        publishing.sync(force=True)
    rewritten = publishing.repository.git("commit-tree", "-m", "x", f"{few}^{{tree}}")
    publishing.repository.git("branch", "elsewhere", rewritten)
    assert "it does not descend from" in fleet.dry_run(rewritten)


def test_a_commit_that_the_repository_of_the_fleet_lacks_has_no_verdict(fleet: Fleet):
    with pytest.raises(ServiceError, match=r"answered with status 404: .* has no revision 1111"):
        fleet.dry_run("1" * 40)
    with pytest.raises(ServiceError, match=r"answered with status 422: query\.revision"):
        fleet.dry_run("main")


def test_a_plan_of_any_commit_names_its_hosts(fleet: Fleet):
    second = fleet.publishing.push(tree("1.1", hosts=4))
    login = tuple((fleet.tokens / "eu-1").read_text().split()[0].split(":"))
    address = f"{fleet.service.url}/api/v1/plan?revision={second}"
    answer = httpx.get(address, auth=login, timeout=None, verify=CERTIFICATES).json()
    assert (answer["revision"], len(answer["hosts"])) == (second, 4)


def test_a_service_without_a_repository_tries_nothing(zookeeper: str, publishing: Publishing, tmp_path: Path):
    publishing.push(tree("1.0"))
    publishing.sync()
    with running_service(zookeeper) as service:
        fleet = Fleet(service, publishing, tmp_path)
        with pytest.raises(ServiceError, match=r"status 409: the service knows no repository"):
            fleet.dry_run("1" * 40)


def test_a_dry_run_is_not_answered_while_the_git_server_hangs(
    zookeeper: str,
    configured: Callable[..., Path],
    publishing: Publishing,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    commit = publishing.push(tree("1.0"))
    publishing.sync()
    monkeypatch.setattr("zkdeployment.programs.syncer._DRY_RUN_TIMEOUT", 0.5)
    with silent_server() as port:
        settings = load(configured(), host=False, sync={"url": f"git://127.0.0.1:{port}/tree"})
        with running_service(zookeeper, repository=settings) as service:
            fleet = Fleet(service, publishing, tmp_path)
            with pytest.raises(ServiceError, match=r"status 503: git ls-remote did not end within 0\.5 s"):
                fleet.dry_run(commit)


def test_packages_that_no_repository_of_the_fleet_has_refuse_a_commit(
    zookeeper: str,
    configured: Callable[..., Path],
    publishing: Publishing,
    paper_repository: PaperRepository,
    tmp_path: Path,
):
    paper_repository.publish("shop-0:1.2-1.noarch")
    publishing.push(tree("1.0"))
    publishing.repository.git("branch", "fleets/eu-1")
    publishing.sync()
    settings = load(configured(f"repositories = {paper_repository.url}"), host=False)
    with running_service(zookeeper, repository=settings) as service:
        fleet = Fleet(service, publishing, tmp_path)
        missing = publishing.push(tree("9.9"))
        assert "/demo/hello: no repository has the package shop 9.9" in fleet.dry_run(missing)
        assert fleet.dry_run(publishing.push(tree("1.2"))) == ""


def test_the_plan_of_a_commit_compares_it_with_the_present_revision_of_the_fleet(
    zookeeper: str, configured: Callable[..., Path], publishing: Publishing, tmp_path: Path
):
    first = publishing.push(tree("1.0"))
    publishing.repository.git("branch", "fleets/eu-1")
    settings = load(configured(), host=False)
    with running_service(zookeeper, repository=settings) as service:
        fleet = Fleet(service, publishing, tmp_path)
        before = fleet.plan(first)
        assert (before.published, before.diff) == (None, ())
        publishing.sync()
        wait_until(lambda: fleet.plan(first).published == first, "it is published")
        second = publishing.push(tree("1.1"))
        plan = fleet.plan(second)
        assert any("1.1" in line for line in plan.diff)
        assert plan.lines[0].startswith(f"**the plan of {second[:12]} - ")
        assert fleet.plan(first).diff == ()
        bad = publishing.push("/broken\n  x = \n")
        with pytest.raises(ServiceError, match=r"answered with status 422: .*x"):
            fleet.plan(bad)


def test_contained_in_counts_in_dry_runs(
    zookeeper: str, configured: Callable[..., Path], publishing: Publishing, tmp_path: Path
):
    publishing.push(tree("1.0"))
    repository = publishing.repository
    repository.git("branch", "fleets/eu-1")
    publishing.sync()
    settings = load(configured("contained-in = main"), host=False)
    with running_service(zookeeper, repository=settings) as service:
        fleet = Fleet(service, publishing, tmp_path)
        repository.git("checkout", "--quiet", "-b", "feature")
        foreign = publishing.push(tree("1.1"))
        assert "expected a commit of main (contained-in)" in fleet.dry_run(foreign)
        repository.git("branch", "--force", "main", foreign)
        assert fleet.dry_run(foreign) == ""


def test_a_dry_run_refuses_what_the_syncer_would_not_sign(
    zookeeper: str, configured: Callable[..., Path], publishing: Publishing, tmp_path: Path
):
    publishing.key = make_key(tmp_path / "publish_key")
    publishing.push(tree("1.0"))
    publishing.repository.git("branch", "fleets/eu-1")
    publishing.sync()
    publishing.put("/extra/texts", {"motd": "hello"})
    settings = load(configured(f"publish-key = {publishing.key}"), host=False)
    with running_service(zookeeper, repository=settings) as service:
        fleet = Fleet(service, publishing, tmp_path)
        linked = publishing.push(tree("1.0").replace("    /deploy", "    motd => /extra/texts motd\n    /deploy"))
        assert "and a signed publication contains only what the files contain" in fleet.dry_run(linked)
        with pytest.raises(TreeError, match="and a signed publication contains only what the files contain"):
            publishing.sync()
        assert fleet.dry_run(publishing.push(tree("1.1"))) == ""


@pytest.mark.parametrize("rules", [(), ("contained-in = main",)])
def test_a_fleet_whose_branch_does_not_exist_yet_answers_the_dry_run_of_its_first_promotion(
    zookeeper: str, configured: Callable[..., Path], publishing: Publishing, tmp_path: Path, rules: tuple[str, ...]
):
    first = publishing.push(tree("1.0"))
    settings = load(configured(*rules), host=False)
    with running_service(zookeeper, repository=settings) as service:
        fleet = Fleet(service, publishing, tmp_path)
        assert fleet.dry_run(first) == ""
        bad = publishing.push("/broken\n  x = \n")
        assert "x" in fleet.dry_run(bad)
        publishing.repository.git("branch", "fleets/eu-1", first)
        assert fleet.dry_run(first) == ""
