"""The sandbox starts, shows, changes and ends a fleet, also after crashes."""

import json
import os
import shutil
import signal
import stat
import subprocess
from pathlib import Path

import httpx
import psutil
import pytest

from support.certificates import CERTIFICATES
from support.commands import run
from support.sandboxes import PROGRAMS
from support.waiting import wait_until
from zkdeployment.sandbox import samples
from zkdeployment.sandbox.fleet import Sandbox
from zkdeployment.sandbox.processes import DaemonSupervisor, has_ended, sandbox_processes

HOSTS = """
host1: {}
web-1: {name: web1.example.com, role: web, tags: [ssd], labels: {site: ams}, rack: r1}
"""


@pytest.fixture(scope="module")
def box(make_box, place):
    """Return a fleet of two hosts with the sample services, shared by these tests."""
    box = make_box("box")
    hosts = place / "hosts.yaml"
    hosts.write_text(HOSTS, encoding="utf-8")
    box.up("--hosts", hosts, "--samples", "--server")
    return box


def left_of(box):
    return sandbox_processes(box.directory), box.directory.exists()


def test_status_shows_the_location_of_every_part(box):
    status = json.loads(box.sandbox("status", "-o", "json").stdout)
    assert status["directory"] == str(box.directory)
    assert stat.S_IMODE(box.directory.stat().st_mode) == 0o700
    assert [server["id"] for server in status["servers"]] == ["zookeeper1"]
    assert status["zookeeper"] == status["servers"][0]["address"]
    pids = [status["syncer"], status["servers"][0]["pid"], *(host["pid"] for host in status["hosts"].values())]
    assert all(psutil.pid_exists(pid) for pid in pids)
    assert {host_id: (host["name"], host["role"]) for host_id, host in status["hosts"].items()} == {
        "host1": ("host1.sandbox", None),
        "web-1": ("web1.example.com", "web"),
    }
    for host in status["hosts"].values():
        assert Path(host["root"]).is_dir()
        assert Path(host["run-directory"]).is_dir()
        assert Path(host["log"]).is_file()
        assert box.zkdeployment("config", "check", host["config"]).returncode == 0


@pytest.mark.nightly
def test_the_service_answers_its_admin_and_is_stopped_and_started_by_name_like_the_worker_of_pools(box):
    server = box.status["server"]
    login = server["user"], server["key"]
    refused = httpx.post(f"{server['url']}/api/v1/resume", json={}, auth=login, timeout=None)
    assert refused.status_code == 409, refused.text
    assert httpx.post(f"{server['url']}/api/v1/resume", json={}, timeout=None).status_code == 401
    workers = Path(box.status["directory"]) / "pools" / "pools.log"
    assert workers.read_text().count("pools-worker-started") == 1
    box.sandbox("stop", "server", "pools")
    assert (box.status["server"], box.status["pools"]) == (server | {"pid": None}, None)
    box.sandbox("start", "server", "pools")
    wait_until(lambda: is_healthy(server["url"]), "the service answers again")
    wait_until(lambda: workers.read_text().count("pools-worker-started") == 2, "the worker runs again")
    assert box.status["pools"] is not None
    assert box.status["nagios"] is None


def is_healthy(url):
    try:
        return httpx.get(f"{url}/healthz", verify=CERTIFICATES).status_code == 200
    except httpx.TransportError:
        return False


def test_status_for_people_names_every_part(box):
    shown = box.sandbox("status").stdout
    for word in ("zookeeper1", "syncer", "host1.sandbox", "web1.example.com (web)", str(box.directory)):
        assert word in shown


@pytest.mark.nightly
def test_status_shows_directories_whole_where_there_is_no_terminal(box):
    shown = box.shell("env", "COLUMNS=40", "zkdeployment", "sandbox", "status", "-d", box.directory).stdout
    for host in box.status["hosts"].values():
        assert str(Path(host["config"]).parent) in shown


def test_samples_are_deployed_to_every_host(box):
    waited = box.wait()
    assert waited.returncode == 0, waited.stderr
    providers = json.loads(box.zkdeployment("tree", "get", "/demo/hello").stdout)
    assert providers["version"] == "1.0"
    for host in ("host1", "web-1"):
        assert (box.root(host) / "opt/hello/version").read_text(encoding="utf-8") == "1.0\n"
        assert list((box.root(host) / "etc/hello").glob("*.deployed"))


def test_up_on_a_running_sandbox_is_refused_and_changes_nothing(box):
    before = box.status
    again = box.sandbox("up", "--hosts", "1")
    assert (again.returncode, again.stdout) == (3, "")
    assert f"a sandbox is running in {box.directory}" in again.stderr
    assert box.status == before


def test_hosts_syncer_and_servers_stop_and_start_by_name(box):
    before = box.status
    assert box.sandbox("stop", "host1", "syncer").returncode == 0
    assert box.sandbox("stop", "web-1", "zookeeper1", "--kill").returncode == 0
    stopped = box.status
    assert [host["pid"] for host in stopped["hosts"].values()] == [None, None]
    assert (stopped["syncer"], stopped["servers"][0]["pid"]) == (None, None)
    assert box.sandbox("start", "zookeeper1", "host1", "web-1", "syncer").returncode == 0
    started = box.status
    assert started["servers"][0]["address"] == before["servers"][0]["address"]
    assert None not in {started["syncer"], *(host["pid"] for host in started["hosts"].values())}
    waited = box.wait("-o", "json")
    assert waited.returncode == 0, waited.stderr


def test_starting_a_running_part_or_stopping_a_stopped_part_changes_nothing(box):
    before = box.status
    assert box.sandbox("start", "host1", "syncer", "zookeeper1").returncode == 0
    assert box.status == before


@pytest.mark.nightly
def test_a_supervisor_restarts_crashed_parts_but_not_stopped_parts(box):
    messages = []
    before = box.status
    assert box.sandbox("stop", "web-1", "--kill").returncode == 0
    with DaemonSupervisor(Sandbox(box.directory), messages.append):
        os.kill(before["hosts"]["host1"]["pid"], signal.SIGKILL)
        os.kill(before["syncer"], signal.SIGKILL)
        wait_until(
            lambda: sorted(text.split()[0] for text in messages) == ["host1", "syncer"], "both were revived"
        )
    after = box.status
    assert None not in {after["syncer"], after["hosts"]["host1"]["pid"]}
    assert after["hosts"]["web-1"]["pid"] is None
    assert box.sandbox("start", "web-1").returncode == 0


@pytest.mark.nightly
def test_a_reboot_ends_all_processes_of_a_host_and_starts_its_agent_and_its_services_with_a_new_boot_id(box):
    assert box.wait().returncode == 0
    place = box.directory / "hosts" / "host1"
    boot_file, pages = place / "root/proc/sys/kernel/random/boot_id", ports(place)
    boot_id, ended = boot_file.read_text(encoding="ascii"), sandbox_processes(place)
    assert len(ended) >= 3, "the agent and two instances of hello"
    assert box.sandbox("reboot", "host1").returncode == 0
    assert all(has_ended(process) for process in ended)
    assert box.status["hosts"]["host1"]["pid"] not in {None, *(process.pid for process in ended)}
    assert boot_file.read_text(encoding="ascii") != boot_id
    wait_until(lambda: all(map(answers, pages)), "the instances answer at their ports again")
    assert box.wait().returncode == 0


def ports(place):
    """Return the ports of the instances of hello on a host."""
    return [file.read_text(encoding="ascii").strip() for file in place.glob("root/var/lib/hello/*/port")]


def answers(port):
    try:
        return httpx.get(f"http://127.0.0.1:{port}/", verify=CERTIFICATES).status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.nightly
def test_a_host_that_is_stopped_during_its_reboot_stays_off_until_it_is_started(box):
    assert box.sandbox("stop", "web-1").returncode == 0
    assert box.sandbox("reboot", "web-1").returncode == 0
    assert box.status["hosts"]["web-1"]["pid"] is None
    assert not sandbox_processes(box.directory / "hosts" / "web-1")
    assert box.sandbox("start", "web-1").returncode == 0


def test_an_unknown_name_is_an_error_that_lists_the_known_ones(box):
    done = box.sandbox("stop", "host1", "host9")
    assert done.returncode == 2
    assert (
        "host9 is not in this sandbox; expected one of host1, web-1, syncer, coordinator, server, pools,"
        " zookeeper1" in done.stderr
    )
    assert box.status["hosts"]["host1"]["pid"] is not None


def test_shell_runs_a_command_with_this_fleets_environment_and_returns_its_exit_status(box):
    shown = box.shell("sh", "-c", "echo $ZC_ZK_CONNECTION_STRING $ZKDEPLOYMENT_CONFIG; exit 7")
    assert shown.returncode == 7
    assert shown.stdout.split() == [box.status["zookeeper"], box.status["config"]]
    assert box.shell("which", "zkdeployment").stdout.strip() == str(PROGRAMS / "zkdeployment")
    inside = json.loads(box.shell("zkdeployment", "sandbox", "status", "-o", "json").stdout)
    assert inside["directory"] == str(box.directory)


def test_pushing_an_unchanged_directory_creates_no_commit(box, tmp_path):
    subprocess.run(["git", "clone", "-q", box.status["tree"], tmp_path / "tree"], check=True)
    tip = subprocess.run(
        ["git", "-C", tmp_path / "tree", "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    ).stdout
    pushed = box.sandbox("push", tmp_path / "tree")
    assert (pushed.returncode, pushed.stdout) == (0, tip)


def test_rpm_signs_and_publishes(box, tmp_path):
    (file,) = samples.build(tmp_path, [("hello", "7.0")])
    assert box.sandbox("rpm", file).returncode == 0
    (published,) = (box.directory / "rpm").glob("hello-7.0-*.rpm")
    assert published.read_bytes() != file.read_bytes()
    available = box.shell("sh", "-c", f"zcat {box.status['repository']}/repodata/*-primary.xml.gz")
    assert 'ver="7.0"' in available.stdout


def test_an_invalid_package_or_directory_is_refused(box, tmp_path):
    text = tmp_path / "text.rpm"
    text.write_text("no package", encoding="utf-8")
    assert box.sandbox("rpm", text).returncode == 2
    assert box.sandbox("push", text).returncode == 2


@pytest.mark.nightly
def test_two_sandboxes_live_side_by_side(box, make_box):
    other = make_box("other")
    printed = json.loads(other.up("--hosts", "1", "--no-syncer", "-o", "json").stdout)
    assert printed == other.status
    assert printed["syncer"] is None
    assert other.status["zookeeper"] != box.status["zookeeper"]
    before = box.status
    assert other.sandbox("down").returncode == 0
    assert left_of(other) == ([], False)
    assert box.status == before


@pytest.mark.nightly
def test_down_ends_processes_that_survived_a_crash(box, make_box):
    crashed = make_box("crashed")
    crashed.up("--hosts", "1", "--samples")
    assert crashed.wait().returncode == 0
    status = crashed.status
    for pid in (status["syncer"], status["servers"][0]["pid"], status["hosts"]["host1"]["pid"]):
        os.kill(pid, signal.SIGKILL)
    for file in crashed.directory.rglob("*.pid"):
        file.unlink()
    wait_until(lambda: crashed.status["syncer"] is None, "the crash is seen")
    services = sandbox_processes(crashed.directory)
    assert len(services) >= 3, "hello twice and worker run on without their agent"
    assert crashed.sandbox("up").returncode == 3
    assert crashed.sandbox("down").returncode == 0
    assert left_of(crashed) == ([], False)
    assert all(has_ended(service) for service in services)
    assert box.status["hosts"]["host1"]["pid"] is not None


@pytest.mark.nightly
def test_down_ends_the_processes_of_a_sandbox_whose_directory_was_removed(make_box):
    gone = make_box("gone")
    gone.up("--hosts", "1")

    def removed():
        """Remove the directory, in which the processes write meanwhile."""
        shutil.rmtree(gone.directory, ignore_errors=True)
        return not gone.directory.exists()

    wait_until(removed, "the directory is removed")
    assert gone.sandbox("down").returncode == 0
    assert left_of(gone) == ([], False)


def test_down_without_a_sandbox_does_nothing(make_box):
    assert make_box("never").sandbox("down").returncode == 0


def test_down_refuses_a_directory_without_a_sandbox(make_box):
    precious = make_box("precious")
    precious.directory.mkdir()
    (precious.directory / "file").touch()
    refused = precious.sandbox("down")
    assert (refused.returncode, (precious.directory / "file").exists()) == (3, True)
    assert "is not a sandbox" in refused.stderr
    assert precious.sandbox("up").returncode == 2
    assert [file.name for file in precious.directory.iterdir()] == ["file"]


@pytest.mark.parametrize(
    "verb",
    [
        "status",
        *(
            pytest.param(verb, marks=pytest.mark.nightly)
            for verb in ("push", "rpm", "start", "stop", "reboot", "shell")
        ),
    ],
)
def test_without_a_sandbox_every_verb_names_the_command_that_starts_a_sandbox(make_box, verb, tmp_path):
    match = {
        "push": [tmp_path],
        "rpm": [tmp_path],
        "start": ["host1"],
        "stop": ["host1"],
        "reboot": ["host1"],
    }.get(verb, [])
    done = make_box("never").sandbox(verb, *match)
    assert done.returncode == 2
    assert "start one with: zkdeployment sandbox up -d" in done.stderr


def test_up_that_fails_half_way_leaves_nothing(make_box, tmp_path, monkeypatch):
    for program in ("java", "git", "gpg", "gpgconf", "gpg-agent"):
        (tmp_path / program).symlink_to(shutil.which(program))
    monkeypatch.setenv("PATH", str(tmp_path))
    half = make_box("half")
    done = half.sandbox("up")
    assert done.returncode == 1
    assert "createrepo_c" in done.stderr
    assert left_of(half) == ([], False)


@pytest.mark.nightly
def test_up_that_is_terminated_leaves_nothing(make_box):
    half = make_box("terminated")
    starting = subprocess.Popen([PROGRAMS / "zkdeployment", "sandbox", "up", "-d", half.directory])
    wait_until(lambda: sandbox_processes(half.directory), "its first process runs")
    starting.terminate()
    assert starting.wait() == 130
    assert left_of(half) == ([], False)


def test_invalid_hosts_are_refused_before_any_process_starts(make_box):
    none = make_box("none")
    assert none.sandbox("up", "--hosts", "no-such-file").returncode == 2
    assert none.sandbox("up", "--servers", "2").returncode == 2
    assert left_of(none) == ([], False)


@pytest.mark.nightly
def test_an_ensemble_of_three_survives_the_loss_of_one(make_box):
    ensemble = make_box("ensemble")
    ensemble.up("--hosts", "1", "--servers", "3")
    assert [server["id"] for server in ensemble.status["servers"]] == ["zookeeper1", "zookeeper2", "zookeeper3"]
    assert ensemble.sandbox("stop", "zookeeper1", "--kill").returncode == 0
    waited = ensemble.wait(ensemble.push("/demo\n"))
    assert waited.returncode == 0, waited.stderr
    assert ensemble.sandbox("start", "zookeeper1").returncode == 0


@pytest.mark.nightly
def test_several_fleets_have_an_ensemble_a_branch_and_a_service_each_and_one_promoter(make_box):
    home = make_box("home")
    home.up("--hosts", "1", "--fleets", "2")
    directories = home.status["fleets"]
    assert directories == {"fleet1": str(home.directory), "fleet2": str(home.directory / "fleets" / "fleet2")}
    assert psutil.pid_exists(home.status["promoter"])
    other = json.loads(home.zkdeployment("sandbox", "status", "-d", directories["fleet2"], "-o", "json").stdout)
    assert other["zookeeper"] != home.status["zookeeper"]
    assert (other["tree"], other["follows"]) == (home.status["tree"], "fleets/fleet2")
    assert None not in {home.status["pools"], other["pools"]}, "each fleet has a worker of host pools"
    shown = home.sandbox("status").stdout
    assert "promoter" in shown
    assert directories["fleet2"] in shown

    def are_equal():
        names = ("refs/heads/main", "refs/heads/fleets/fleet2")
        tips = run("git", "-C", other["tree"], "for-each-ref", "--format=%(objectname)", *names).stdout.split()
        return len(tips) == 2 and len({*tips}) == 1

    wait_until(are_equal, "the promoter moved the branch of the second fleet")
    messages = []
    with DaemonSupervisor(Sandbox(home.directory), messages.append):
        os.kill(other["coordinator"], signal.SIGKILL)
        wait_until(lambda: messages, "a daemon of the second fleet was revived")
    assert messages == ["coordinator of fleet2 crashed and was restarted, like systemd does"]
    assert home.sandbox("stop", "promoter").returncode == 0
    assert home.status["promoter"] is None
    assert home.sandbox("down").returncode == 0
    assert left_of(home) == ([], False)


@pytest.mark.nightly
def test_options_that_do_not_fit_several_fleets_are_refused_before_any_process_starts(make_box):
    none = make_box("none")
    refused = none.sandbox("up", "--fleets", "2", "--servers", "3")
    assert refused.returncode == 2
    assert "--fleets cannot be combined with --nagios, --servers or --no-syncer" in refused.stderr
    assert none.sandbox("up", "--fleets", "1").returncode == 2
    assert left_of(none) == ([], False)
