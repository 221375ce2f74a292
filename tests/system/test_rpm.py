"""The RPM of zkdeployment is built, installed into a scratch root, run, upgraded and removed."""

import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest

from zkdeployment.sandbox.rpms import RpmRepository

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
%files
/opt/zkdeployment
%config(noreplace) /etc/zkdeployment/zkdeployment.cfg
"""

PYTHON = os.path.realpath(sys.executable)

# Building the RPM is slow, because it contains everything that a host gets.
pytestmark = pytest.mark.timeout(400)


def run(*argv, **options):
    done = subprocess.run([*map(str, argv)], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, f"{argv}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """Return a repository with the built package, an older version and a provider of the requirements."""
    place = tmp_path_factory.mktemp("rpm")
    for number, text in enumerate((SURROUNDINGS.format(python=PYTHON), OLDER)):
        spec = place / f"{number}.spec"
        spec.write_text(text)
        run("rpmbuild", "-bb", "--define", f"_topdir {place}", "--define", f"_rpmdir {place}", spec)
    tools = {"PYTHON": PYTHON, "PIP": f"{sys.executable} -m pip"}
    run(HERE / "rpm" / "build", place, env={**os.environ, **tools}, cwd=place)
    found = RpmRepository(place / "repository")
    found.create()
    found.add(sorted(place.rglob("*.rpm")))
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
        """Run an installed program with the interpreter that its shebang line names."""
        script = self.path(f"/opt/zkdeployment/bin/{program}")
        assert script.read_text().startswith("#!/opt/zkdeployment/bin/python\n")
        python = self.path("/opt/zkdeployment/bin/python")
        return run(python, script, *words, env={"PATH": "/usr/bin:/bin"}, cwd="/")


def test_the_package_upgrades_an_older_one_runs_and_is_removed(repository, tmp_path):
    root = Root(tmp_path / "root", repository)
    root.dnf("install", "zkdeployment-0.0.9")
    configuration = root.path("/etc/zkdeployment/zkdeployment.cfg")
    configuration.write_text("# ours\n")

    root.dnf("upgrade", "zkdeployment")
    assert configuration.read_text() == "# ours\n"
    assert "[zkdeployment]" in configuration.with_name("zkdeployment.cfg.rpmnew").read_text()
    assert not root.path("/opt/zkdeployment/old").exists()
    assert root.zkdeployment("zkdeployment", "version") == "zkdeployment 0.1.0\n"
    assert "check" in root.zkdeployment("check_zkdeployment", "--help")
    assert "zdaemon" in root.zkdeployment("zdaemon", "--help")
    for link in ("/usr/bin/zkdeployment", "/usr/lib64/nagios/plugins/check_zkdeployment"):
        assert root.path(link).resolve().parent == root.path("/opt/zkdeployment/bin").resolve()
    assert root.path("/usr/lib/systemd/system/zkdeployment-agent.service").exists()
    for page in ("1/zkdeployment.1", "5/zkdeployment.cfg.5", "8/check_zkdeployment.8"):
        assert b".SH DESCRIPTION" in gzip.decompress(root.path(f"/usr/share/man/man{page}.gz").read_bytes())
    for file in ("bash-completion/completions/zkdeployment", "zsh/site-functions/_zkdeployment"):
        assert "_ZKDEPLOYMENT_COMPLETE" in root.path(f"/usr/share/{file}").read_text()
    assert "complete" in root.path("/usr/share/fish/vendor_completions.d/zkdeployment.fish").read_text()

    root.dnf("remove", "zkdeployment")
    assert not root.path("/opt/zkdeployment").exists()
    assert not root.path("/usr/bin/zkdeployment").exists()
    assert configuration.with_name("zkdeployment.cfg.rpmsave").read_text() == "# ours\n"


def test_all_modules_are_compiled_and_no_file_contains_the_build_directory(repository, tmp_path):
    root = Root(tmp_path / "root", repository)
    root.dnf("install", "zkdeployment")
    software = root.path("/opt/zkdeployment")
    sources = set(software.rglob("*.py"))
    compiled = {path.parents[1] / f"{path.name.split('.')[0]}.py" for path in software.rglob("*.pyc")}
    assert sources == compiled
    places = str(HERE).encode(), b"BUILDROOT"
    files = [path for path in software.rglob("*") if path.is_file() and not path.is_symlink()]
    assert [path for path in files if any(place in path.read_bytes() for place in places)] == []


def test_rpmlint_finds_only_documented_exceptions(repository):
    (package,) = repository.directory.parent.glob("zkdeployment-0.1.0-*.rpm")
    run("rpmlint", "--config", HERE / "rpm" / "rpmlint.toml", package)


def test_the_bundled_libraries_cover_the_requirements_with_exact_versions_and_hashes():
    lines = (HERE / "rpm" / "requirements.txt").read_text().splitlines()
    pinned = [line for line in lines if line[:1].isalnum()]
    assert all("==" in line and line.endswith("\\") for line in pinned)
    names = {line.partition("==")[0].lower() for line in pinned}
    needed = run(
        sys.executable,
        "-c",
        "import configparser; c = configparser.ConfigParser(); c.read('setup.cfg');"
        "print(c['options']['install_requires'])",
        cwd=HERE,
    )
    assert {line.split()[0].lower() for line in needed.split("\n") if line.strip()} <= names
