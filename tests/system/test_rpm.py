"""The RPMs of zkdeployment are built, installed into a scratch root, run, upgraded and removed."""

import gzip
import json
import subprocess
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from support.certificates import CERTIFICATES
from support.hosts.rpms import VERSION, interpreter
from support.waiting import wait_until
from zkdeployment.sandbox.repositories import RpmRepository
from zkdeployment.sandbox.zookeeper import free_port

HERE = Path(__file__).resolve().parents[2]

#: An empty package that provides the RPM's requirements.
SURROUNDINGS = """\
Name: surroundings
Version: 1
Release: 1
Summary: The host around zkdeployment
License: none
BuildArch: noarch
Provides: {python}
Provides: rpm
Provides: openssh-clients
Provides: git-core
%description
%files
"""

#: An older zkdeployment package, for testing upgrades.
OLDER = """\
Name: zkdeployment
Version: 0.0.9
Release: 1
Summary: What was there before
License: none
AutoReqProv: no
%description
%install
mkdir -p %{buildroot}/opt/zkdeployment/old %{buildroot}/etc/zkdeployment
echo old >%{buildroot}/opt/zkdeployment/old/module.py
echo "# as it came" >%{buildroot}/etc/zkdeployment/zkdeployment.cfg
echo old >%{buildroot}/opt/zkdeployment/library.py
%package server
Summary: The service that was there before
AutoReqProv: no
Requires: zkdeployment = 0.0.9-1
%description server
%files
/opt/zkdeployment/old
%config(noreplace) /etc/zkdeployment/zkdeployment.cfg
%files server
/opt/zkdeployment/library.py
"""

#: Imports each module of the installed program, so that each library that one of them needs is there.
IMPORT_EVERYTHING = """
import importlib, pkgutil, zkdeployment
for module in pkgutil.walk_packages(zkdeployment.__path__, "zkdeployment."):
    if not (module.name.endswith("__main__") or ".samples" in module.name):
        importlib.import_module(module.name)
"""

#: Runs the playbook in a directory with the installed Ansible, and prints its result.
RUN_PLAYBOOK = """
import json, sys
from zkdeployment.pools.mechanisms.ansible import AnsiblePlaybooks
from zkdeployment.pools.documents import AnsibleMechanism, Playbook
mechanism = AnsibleMechanism(sys.argv[1], Playbook("provision.yml", {"address": "192.0.2.{{ number }}"}))
print(json.dumps(AnsiblePlaybooks().run(mechanism, mechanism.provision, {"number": 7}, [{"id": 1}])))
"""

PLAYBOOK = """\
- hosts: localhost
  gather_facts: false
  tasks:
    - command: {argv: ["/bin/true"]}
    - set_fact:
        duffy_out: {nodes: "{{ duffy_in.nodes | map('combine', {'ipaddr': address}) }}"}
"""

ENVIRONMENT = {"PATH": "/usr/bin:/bin"}

# Building the RPM is slow, because it contains everything that a host gets.
pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900), pytest.mark.all_features]


def run(*argv, **options):
    done = subprocess.run([*map(str, argv)], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, f"{argv}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def repository(built_rpms, tmp_path_factory):
    """Return a repository with the built packages, an older version and a provider of the requirements."""
    place = tmp_path_factory.mktemp("rpm")
    for number, text in enumerate((SURROUNDINGS.format(python=interpreter()), OLDER)):
        spec = place / f"{number}.spec"
        spec.write_text(text)
        run("rpmbuild", "-bb", "--define", f"_topdir {place}", "--define", f"_rpmdir {place}", spec)
    found = RpmRepository(place / "repository")
    found.create()
    found.add(sorted([*place.rglob("*.rpm"), *built_rpms.glob("*.rpm")]))
    return found


class Root:
    """A scratch root that simulates a host."""

    def __init__(self, directory, repository) -> None:
        self.directory = directory
        self._repository = repository
        run("rpm", "--root", directory, "--import", repository.key)

    def dnf(self, *words):
        where = [f"--installroot={self.directory}", f"--setopt=reposdir={self._repository.definitions}"]
        plain = ["--releasever=9", "--setopt=install_weak_deps=False", "--assumeyes"]
        return run("dnf", *where, *plain, *words, timeout=120)

    def path(self, name):
        return self.directory / name.lstrip("/")

    def zkdeployment(self, program, *words):
        """Run an installed program."""
        return run(*self.command(program, *words), env=ENVIRONMENT, cwd="/")

    def command(self, program, *words):
        """Return the command line of an installed program with the interpreter that its shebang line names."""
        script = self.path(f"/opt/zkdeployment/bin/{program}")
        assert script.read_text().startswith("#!/opt/zkdeployment/bin/python\n")
        return self.python(script, *words)

    def python(self, *words):
        """Return a command line of the installed Python."""
        return [self.path("/opt/zkdeployment/bin/python"), *words]

    def unit(self, daemon):
        """Return the path of the systemd unit of a daemon."""
        return self.path(f"/usr/lib/systemd/system/zkdeployment-{daemon}.service")

    def files(self):
        """Return the paths of our files and directories."""
        units = self.path("/usr/lib/systemd/system").glob("zkdeployment-*")
        return {path.relative_to(self.directory) for path in (*self.path("/opt").rglob("*"), *units)}


@pytest.fixture(scope="module")
def host(repository, tmp_path_factory):
    """Return a root with the package of the agents; tests leave its files as they find them."""
    root = Root(tmp_path_factory.mktemp("host") / "root", repository)
    root.dnf("install", "zkdeployment")
    return root


def test_the_package_upgrades_an_older_one_runs_and_is_removed(repository, tmp_path):
    root = Root(tmp_path / "root", repository)
    root.dnf("install", "zkdeployment-0.0.9")
    configuration = root.path("/etc/zkdeployment/zkdeployment.cfg")
    configuration.write_text("# ours\n")

    root.dnf("upgrade", "zkdeployment")
    assert configuration.read_text() == "# ours\n"
    assert "[zkdeployment]" in configuration.with_name("zkdeployment.cfg.rpmnew").read_text()
    assert not root.path("/opt/zkdeployment/old").exists()
    assert root.zkdeployment("zkdeployment", "version") == f"zkdeployment {VERSION}\n"
    assert "check" in root.zkdeployment("check_zkdeployment", "--help")
    assert "zdaemon" in root.zkdeployment("zdaemon", "--help")
    for link in ("/usr/bin/zkdeployment", "/usr/lib64/nagios/plugins/check_zkdeployment"):
        assert root.path(link).resolve().parent == root.path("/opt/zkdeployment/bin").resolve()
    assert root.unit("agent").exists()
    for page in ("1/zkdeployment.1", "5/zkdeployment.cfg.5", "8/check_zkdeployment.8"):
        assert b".SH DESCRIPTION" in gzip.decompress(root.path(f"/usr/share/man/man{page}.gz").read_bytes())
    for file in ("bash-completion/completions/zkdeployment", "zsh/site-functions/_zkdeployment"):
        assert "_ZKDEPLOYMENT_COMPLETE" in root.path(f"/usr/share/{file}").read_text()
    assert "complete" in root.path("/usr/share/fish/vendor_completions.d/zkdeployment.fish").read_text()

    root.dnf("remove", "zkdeployment")
    assert not root.path("/opt/zkdeployment").exists()
    assert not root.path("/usr/bin/zkdeployment").exists()
    assert configuration.with_name("zkdeployment.cfg.rpmsave").read_text() == "# ours\n"


def test_the_package_of_the_service_upgrades_with_that_of_the_agents_serves_and_is_removed(
    repository, tmp_path, host
):
    root = Root(tmp_path / "root", repository)
    root.dnf("install", "zkdeployment-0.0.9", "zkdeployment-server-0.0.9")
    assert root.path("/opt/zkdeployment/library.py").exists()

    root.dnf("upgrade", "zkdeployment-server")
    assert not root.path("/opt/zkdeployment/library.py").exists()
    assert root.zkdeployment("zkdeployment", "version") == f"zkdeployment {VERSION}\n"
    with serving(root, tmp_path) as url:
        assert httpx.get(f"{url}/healthz", timeout=None).status_code == 503  # because ZooKeeper does not run
        assert "<form" in httpx.get(f"{url}/login", timeout=None).text
        assert httpx.get(f"{url}/static/page.css", timeout=None).status_code == 200

    root.dnf("install", "zkdeployment-pools", "zkdeployment-editors")
    run(*root.python("-c", IMPORT_EVERYTHING), env=ENVIRONMENT, cwd="/")
    root.dnf("remove", "zkdeployment-server")
    assert root.unit("pools").exists()
    assert not root.unit("server").exists()
    assert playbook_result(root, tmp_path) == {"nodes": [{"id": 1, "ipaddr": "192.0.2.7"}]}
    root.dnf("remove", "zkdeployment-pools")
    run(*root.python("-c", "import zkdeployment.editors.server"), env=ENVIRONMENT, cwd="/")
    root.dnf("remove", "zkdeployment-editors")
    assert root.files() == host.files()


def playbook_result(root, place):
    """Return the result of a playbook that the installed program runs."""
    ansible = root.path("/opt/zkdeployment/bin/ansible-playbook")
    first, _, rest = ansible.read_text().partition("\n")
    assert first == "#!/opt/zkdeployment/bin/python"
    ansible.write_text(f"#!{root.python()[0]}\n{rest}")
    (place / "playbooks").mkdir()
    (place / "playbooks" / "provision.yml").write_text(PLAYBOOK)
    (place / "home").mkdir()
    environment = {**ENVIRONMENT, "HOME": str(place / "home")}
    return json.loads(run(*root.python("-c", RUN_PLAYBOOK, place / "playbooks"), env=environment, cwd="/"))


def test_a_host_has_neither_libraries_nor_units_of_the_service_and_of_the_worker_of_pools(host, tmp_path):
    libraries = {path.name for path in host.path("/opt/zkdeployment").glob("lib/python3.*/site-packages/*")}
    assert libraries & {"fastapi", "uvicorn", "jinja2", "argon2", "authlib", "pydantic", "cryptography"} == set()
    assert libraries & {"ansible", "ansible_runner", "pexpect", "pygls", "lsprotocol"} == set()
    units = {path.name for path in host.path("/usr/lib/systemd/system").glob("zkdeployment-*.service")}
    assert units == {f"zkdeployment-{daemon}.service" for daemon in ("agent", "coordinator", "filter@", "syncer")}
    configuration = tmp_path / "zkdeployment.cfg"
    configuration.write_text("[zkdeployment]\n")
    schema = host.path("/usr/share/zkdeployment/schemas/documents.json")
    assert "shipyard/DeploymentStrategy/v1" in json.loads(schema.read_text())["properties"]["schema"]["examples"]
    for verb, package in (("serve", "zkdeployment-server"), ("pools", "zkdeployment-pools")):
        refused = subprocess.run(
            host.command("zkdeployment", verb, configuration),
            capture_output=True,
            text=True,
            env=ENVIRONMENT,
            check=False,
        )
        assert refused.returncode == 2
        assert f"install the package {package}" in refused.stderr


@pytest.mark.parametrize("daemon", ["nagios", "promoter"])
def test_the_packages_of_the_bridge_and_of_the_promoter_add_a_unit_and_no_library(host, daemon):
    before = host.files()
    host.dnf("install", f"zkdeployment-{daemon}")
    added = {str(path) for path in host.files() - before}
    assert [path for path in added if f"zkdeployment-{daemon}" not in path] == []
    assert host.unit(daemon).exists()
    host.dnf("remove", f"zkdeployment-{daemon}")
    assert host.files() == before


@contextmanager
def serving(root, place):
    """Run the installed service without a ZooKeeper until it answers; yield its URL."""
    port = free_port()
    configuration = place / "service.cfg"
    server = f"[server]\nlisten = 127.0.0.1:{port}\n"
    configuration.write_text(f"[zkdeployment]\nzookeeper = 127.0.0.1:{free_port()}\n{server}")
    command = root.command("zkdeployment", "serve", configuration)
    log = place / "service.log"
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=ENVIRONMENT, cwd="/")

    def answers():
        assert process.poll() is None, log.read_text()
        with suppress(httpx.TransportError):
            return httpx.get(f"http://127.0.0.1:{port}/healthz", verify=CERTIFICATES).status_code
        return None

    try:
        wait_until(answers, "the service answers")
        yield f"http://127.0.0.1:{port}"
        process.terminate()
        assert process.wait() == 0
    finally:
        process.kill()
        process.wait()


def test_all_modules_are_compiled_and_no_file_contains_the_build_directory(host):
    before = host.files()
    host.dnf("install", "zkdeployment-server", "zkdeployment-pools")
    software = host.path("/opt/zkdeployment")
    sources = set(software.rglob("*.py"))
    compiled = {path.parents[1] / f"{path.name.split('.')[0]}.py" for path in software.rglob("*.pyc")}
    assert sources == compiled
    places = str(HERE).encode(), b"BUILDROOT"
    files = [path for path in software.rglob("*") if path.is_file() and not path.is_symlink()]
    assert [path for path in files if any(place in path.read_bytes() for place in places)] == []
    host.dnf("remove", "zkdeployment-server", "zkdeployment-pools")
    assert host.files() == before


def test_rpmlint_finds_only_documented_exceptions(built_rpms):
    packages = sorted(built_rpms.glob("*.rpm"))
    assert len(packages) == 6
    run("rpmlint", "--config", HERE / "rpm" / "rpmlint.toml", *packages)
