"""Split updates with real processes: the filter, the verb, the library call and the manual's load balancer."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import textwrap

import pytest

from support.commands import invoke
from support.forks import ForkedProgram
from support.manual import MANUAL, blocks
from support.waiting import wait_until
from zkdeployment.base.daemon.failpoints import VARIABLE
from zkdeployment.providers import select
from zkdeployment.providers.filter import lock_path
from zkdeployment.providers.instance import Provider
from zkdeployment.zookeeper.contender_lock import contenders
from zkdeployment.zookeeper.session import Session

SOURCE, OUTPUT = "/shop/web/providers", "/in-service/web"
ADDRESSES = [f"app{number}:80" for number in range(1, 6)]


class Service:
    """A service whose instances this test registers."""

    def __init__(self, session) -> None:
        self.session = session
        session.ensure(SOURCE)

    def register(self, version, *addresses):
        for address in addresses:
            Provider(self.session, SOURCE, address).register({"version": version})

    def end(self, address):
        self.session._client.delete(f"{SOURCE}/{address}")

    def filters(self):
        return contenders(self.session, lock_path(OUTPUT))


@pytest.fixture
def service(zookeeper):
    with Session(zookeeper) as session:
        yield Service(session)


@pytest.fixture
def start(tmp_path):
    """Return a function that starts filters; the remaining ones are killed at the end."""
    config = tmp_path / "zkdeployment.cfg"
    config.write_text(f"[zkdeployment]\nroot = {tmp_path}\n")
    started = []

    def start_filter(zookeeper, *options, **environment):
        log = tmp_path / f"filter-{len(started)}.log"
        with log.open("w") as output:
            process = ForkedProgram(
                ["filter", "-z", zookeeper, SOURCE, OUTPUT, *options],
                os.environ | {"ZKDEPLOYMENT_CONFIG": str(config)} | environment,
                output=output,
            )
        process.log = log.read_text
        started.append(process)
        return process

    yield start_filter
    for process in started:
        process.kill()
        process.wait()


def listed(zookeeper):
    found = select(OUTPUT, zookeeper=zookeeper)
    return found.version, found.addresses


def test_a_load_balancer_never_mixes_versions_while_instances_are_updated_and_filters_are_killed(
    service, start, zookeeper, tmp_path
):
    """The manual's load balancer; one leader dies before the switch, the next one right after it."""
    service.register("1.1", *ADDRESSES)
    first = start(zookeeper, **{VARIABLE: "before:switch@2=kill"})
    wait_until(lambda: len(service.filters()) == 1 and service.session.get(OUTPUT), "a list")
    second = start(zookeeper, **{VARIABLE: "after:switch=kill"})
    wait_until(lambda: len(service.filters()) == 2, "the second filter waits")
    third = start(zookeeper)
    wait_until(lambda: len(service.filters()) == 3, "the third filter waits")

    def bury(process):
        """Remove the dead leader's lock node, as the end of its session would do seconds later."""
        assert process.wait() == -signal.SIGKILL
        service.session._client.delete(service.filters()[0].node)

    seen, backend, reloads = (tmp_path / name for name in ("seen", "web.cfg", "reloads"))
    ((_, pipeline),) = blocks("split-updates", "sh")
    for shown, used in {
        "zkdeployment providers": f"{sys.executable} -m zkdeployment providers -z {zookeeper}",
        "json |": f"json | tee {seen} |",
        "/usr/share/zkdeployment/examples": f"{sys.executable} {MANUAL}/examples",
        "/etc/haproxy/conf.d/web.cfg": backend,
        "systemctl reload haproxy": f"sh -c 'cat {backend} >>{reloads}'",
    }.items():
        assert shown in pipeline
        pipeline = pipeline.replace(shown, str(used))
    balancer = subprocess.Popen(pipeline, shell=True, start_new_session=True)
    try:
        wait_until(lambda: backend.exists() and backend.read_text().count("server") == 5, "a backend of five")
        for number, address in enumerate(ADDRESSES, 1):
            service.end(address)
            if number <= 3:
                left = set(ADDRESSES[number:])
                wait_until(lambda left=left: set(listed(zookeeper)[1]) == left, "the list without the instance")
            service.register("1.4", address)
            if number == 3:
                bury(first)
                bury(second)
        last = '# version "1.4"\nbackend web\n' + "".join(
            f"    server {name} {name} check init-addr last,libc,none\n" for name in ADDRESSES
        )
        wait_until(lambda: reloads.read_text().endswith(last), "a backend of five again")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(balancer.pid, signal.SIGTERM)
        balancer.wait()
    lists = [json.loads(line) for line in seen.read_text().splitlines()]
    for found in lists:
        assert {provider["version"] for provider in found["providers"].values()} <= {found["version"]}
        assert found["others"] == {}
        assert len(found["providers"]) >= 2
    versions = [found["version"] for found in lists]
    assert versions == sorted(versions)  # one switch
    assert len(set(versions)) == 2
    written = re.findall(
        r"# version \"(\S+)\"\nbackend web\n((?:    server \S+ \S+ check init-addr \S+\n)*)", reloads.read_text()
    )
    assert [version for version, _ in written] == versions
    third.send_signal(signal.SIGTERM)
    assert third.wait() == 0
    assert "version-switched" not in third.log()
    assert service.filters() == ()
    start(zookeeper)  # a restart changes nothing
    wait_until(lambda: len(service.filters()) == 1, "a filter again")
    assert listed(zookeeper) == ("1.4", tuple(ADDRESSES))


def test_consumers_that_start_in_the_middle_agree_through_the_filter(service, start, zookeeper):
    service.register("1.1", *ADDRESSES[:2])
    start(zookeeper)
    wait_until(lambda: service.session.get(OUTPUT) and len(listed(zookeeper)[1]) == 2, "a list")
    service.register("1.4", *ADDRESSES[2:4])
    service.register("1.1", ADDRESSES[4])
    wait_until(lambda: ADDRESSES[4] in listed(zookeeper)[1], "the next instance")
    service.end(ADDRESSES[4])
    wait_until(lambda: ADDRESSES[4] not in listed(zookeeper)[1], "the list without this instance")
    long_running = select(OUTPUT, last="1.1", zookeeper=zookeeper)
    assert select(OUTPUT, zookeeper=zookeeper) == select(OUTPUT, last="1.4", zookeeper=zookeeper) == long_running
    assert long_running.addresses == tuple(ADDRESSES[:2])
    # Without the filter, a consumer that starts now decides on its own.
    assert select(SOURCE, last="1.1", zookeeper=zookeeper).version == "1.1"
    assert select(SOURCE, zookeeper=zookeeper).version == "1.4"


def test_a_filter_that_may_not_write_ends_at_once(service, start, zookeeper, client):
    service.register("1.1", "app1:80")
    client.create(f"{OUTPUT}/foreign", makepath=True)
    refused = start(zookeeper)
    assert refused.wait() == 3
    assert "/in-service/web cannot hold the list: it holds nodes that no filter wrote" in refused.log()
    wrong = invoke("filter", "-z", zookeeper, SOURCE, "/web")
    assert (wrong.returncode, service.filters()) == (2, ())
    assert invoke("filter", "-z", zookeeper, SOURCE, OUTPUT, "--majority", "50%").returncode == 2


def test_the_verb_shows_the_instances_in_service(service, zookeeper, client):
    def providers(*arguments):
        return invoke("providers", "-z", zookeeper, *arguments)

    assert "no instance has registered at /shop/web/providers" in providers(SOURCE).stdout
    service.register("1.1", "app1:80", "app2:80")
    service.register("1.4", "app3:80")
    shown = providers(SOURCE)
    assert shown.returncode == 0
    assert "in service at /shop/web/providers: 1.1, 2 of 3 instances; not in service: 1.4 (1)" in shown.stdout
    assert [line.split() for line in shown.stdout.splitlines() if "app" in line] == [
        ["app1:80", "1.1", "yes"],
        ["app2:80", "1.1", "yes"],
        ["app3:80", "1.4", "no"],
    ]
    assert json.loads(providers(SOURCE, "-o", "json").stdout) == {
        "schema": "zkdeployment/providers/v1",
        "path": SOURCE,
        "version": "1.1",
        "providers": {"app1:80": {"version": "1.1"}, "app2:80": {"version": "1.1"}},
        "others": {"app3:80": {"version": "1.4"}},
    }
    assert "expected a table or JSON" in providers(SOURCE, "--watch", "-o", "yaml").stderr
    assert "there is no node /shop/nothing" in providers("/shop/nothing").stderr
    assert providers("shop").returncode == 2
    client.set("/shop/web", b'{"type": "web"}')
    client.create("/shop/web/deploy")
    of_service = providers("/shop/web")
    assert of_service.returncode == 2
    assert "/shop/web is a service: expected the node below which its instances register" in of_service.stderr


def test_a_watch_prints_each_change_and_stays_with_its_version_until_there_is_a_majority(service, zookeeper):
    service.register("1.1", "app1:80")
    command = [sys.executable, "-m", "zkdeployment", "providers", "-z", zookeeper, SOURCE, "--watch"]
    watching = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        lines = iter(watching.stdout.readline, "")
        assert next(lines) == f"in service at {SOURCE}: 1.1, 1 of 1 instances: app1:80\n"
        service.register("1.4", "app2:80")
        assert next(lines) == f"in service at {SOURCE}: 1.1, 1 of 2 instances; not in service: 1.4 (1): app1:80\n"
        service.end("app1:80")
        assert next(lines) == f"in service at {SOURCE}: 1.4, 1 of 1 instances: app2:80\n"
        service.end("app2:80")
        assert next(lines) == f"in service at {SOURCE}: 1.4, 0 of 0 instances\n"
        service.session._client.delete(SOURCE)
        assert next(iter(watching.stderr.readline, "")) == f"there is no node {SOURCE}\n"
        service.session.ensure(SOURCE)
        service.register("1.5", "app3:80")
        assert next(lines) == f"in service at {SOURCE}: 1.5, 1 of 1 instances: app3:80\n"
    finally:
        watching.send_signal(signal.SIGINT)
        watching.communicate()
    assert watching.returncode == 0


def test_the_library_call_of_the_manual_needs_kazoo_and_no_other_library(service, zookeeper):
    service.register("1.1", "app1:80", "app2:80")
    examples = "\n".join(block for _, block in blocks("split-updates", "python"))
    examples = examples.replace("/in-service/web", SOURCE)
    program = """
        import importlib.abc, logging, sys

        class Nothing(importlib.abc.MetaPathFinder):
            def find_spec(self, name, path, target=None):
                if name.split(".")[0] not in {*sys.stdlib_module_names, "kazoo", "zkdeployment"}:
                    raise ModuleNotFoundError(name)

        sys.meta_path.insert(0, Nothing())
        exec(sys.argv[1])
        from zkdeployment.base.log import get_logger
        get_logger().warning("library-missing", library="structlog")
    """
    environment = {**os.environ, "ZC_ZK_CONNECTION_STRING": zookeeper}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), examples],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("1.1 app1:80 app2:80\n", "library-missing library=structlog\n")
