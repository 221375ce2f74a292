"""The page "First deployment" is carried out on three booted machines, from RPMs, without a checkout.

The machines have, as those of the page, nothing but their distribution. This is Debian, so it gets what RPM
distributions call by other names: Java, openssl, sshd, a web server, and a package that provides these names.
"""

import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from support.hosts.booted_fleet import build_distribution
from support.hosts.booted_machine import SHARED, BootedMachine
from support.hosts.machine_room import MachineRoom
from support.manual import steps
from zkdeployment.sandbox.repositories import RpmRepository
from zkdeployment.sandbox.zookeeper import find_installation

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800), pytest.mark.all_features]

PAGE = "operations/first-deployment"
MACHINES = ("app1", "app2", "app3")

#: The public key of the packages.
KEY = "/etc/pki/rpm-gpg/RPM-GPG-KEY-fleet"

#: The packages that the page installs from the repositories of EL.
NAMES = (
    "createrepo_c",
    "git-core",
    "httpd",
    "java-17-openjdk-headless",
    "openssh-clients",
    "openssh-server",
    "openssl",
    "rpm-build",
    "rpm-sign",
)

REPOSITORY = f"""\
[distribution]
name=distribution
baseurl=file://{SHARED}/distribution
gpgcheck=0
"""

UNITS = {
    "httpd": "/usr/bin/python3 -m http.server 80 --directory /var/www/html",
    "sshd": "/usr/sbin/sshd -D",
}

UNIT = """\
[Service]
ExecStart={start}
RuntimeDirectory=sshd
RuntimeDirectoryPreserve=yes
[Install]
WantedBy=multi-user.target
"""


def copy_program(machine, name):
    """Copy a program of this computer, whose distribution is that of the machine, and the libraries that lack."""
    program = shutil.which(name, path="/usr/sbin:/usr/bin")
    assert program is not None, f"expected {name} on this computer, found none"
    shutil.copy2(program, machine.path(program))
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    for library in re.findall(r"=> (/\S+)", listed):
        if not machine.path(library).exists():
            shutil.copy2(library, machine.path(library))


def zookeeper_jars():
    """Return the jars of this computer's ZooKeeper and those that its manifest names."""
    classpath = [Path(name) for name in find_installation().classpath]
    manifest = (
        subprocess.run(
            ["unzip", "-p", classpath[0], "META-INF/MANIFEST.MF"], capture_output=True, text=True, check=True
        )
        .stdout.replace("\n ", "")
        .replace("\r", "")
    )
    named = re.search(r"(?m)^Class-Path: (.*)", manifest)
    return {*classpath, *(Path(name) for name in (named[1].split() if named else ()) if Path(name).exists())}


def supply(machine):
    """Give a machine what an EL has, and what the page has people download or copy."""
    java = find_installation().java
    assert java is not None, "expected Java on this computer, found none"
    home = Path(java).resolve().parents[1]
    shutil.copytree(
        home, machine.path("/usr/lib/jvm/java"), ignore=shutil.ignore_patterns("jmods", "src.zip", "docs")
    )
    machine.path("/usr/bin/java").symlink_to("/usr/lib/jvm/java/bin/java")
    for name in ("openssl", "sshd"):
        copy_program(machine, name)
    machine.path("/usr/lib/ssl").mkdir(exist_ok=True)
    shutil.copy2("/etc/ssl/openssl.cnf", machine.path("/usr/lib/ssl/openssl.cnf"))
    machine.path("/etc/ssh/sshd_config").write_text("UsePAM yes\n")
    machine.run("useradd", "--system", "sshd")
    with machine.path("/etc/rpm/macros").open("a") as macros:
        macros.write("%__gpg /usr/bin/gpg\n")
    for name, start in UNITS.items():
        machine.path(f"/etc/systemd/system/{name}.service").write_text(UNIT.format(start=start))
    with tarfile.open(machine.path("/root/apache-zookeeper-3.9.4-bin.tar.gz"), "w:gz") as archive:
        for jar in zookeeper_jars():
            archive.add(jar.resolve(), f"apache-zookeeper/lib/{jar.name}")
    machine.path("/etc/yum.repos.d").mkdir(parents=True)
    machine.path("/etc/yum.repos.d/distribution.repo").write_text(REPOSITORY)
    machine.run("dnf", "--assumeyes", "--quiet", "install", "distribution")


@pytest.fixture
def machines(tmp_path, built_rpms):
    """Return three machines with their distribution, which know each other's names; app1 has the built RPMs."""
    shared = tmp_path / "shared"
    repository = RpmRepository(shared / "distribution")
    repository.create("distribution")
    repository.add([build_distribution(tmp_path, NAMES)])
    with MachineRoom() as room:
        first = BootedMachine(room, "first", tmp_path / "first", shared=shared)
        first.start()
        supply(first)
        first.stop()
        (first.changes / "etc" / "machine-id").write_text("")
        machines = {
            name: BootedMachine(room, name, tmp_path / name, shared=shared, layers=(first.changes,))
            for name in MACHINES
        }
        for machine in machines.values():
            machine.start()
        addresses = {name: machine.run("hostname", "-I").stdout.strip() for name, machine in machines.items()}
        hosts = "".join(f"{address} {name}.example.com {name}\n" for name, address in addresses.items())
        for machine in machines.values():
            machine.path("/etc/hosts").write_text(f"127.0.0.1 localhost\n{hosts}")
            machine.run("ssh-keygen", "-A")
            machine.run("systemctl", "enable", "--now", "sshd")
        shutil.copytree(built_rpms, machines["app1"].path("/root/rpms"))
        yield machines


def write(machine, file, text):
    """Write a file that the page shows for a machine; the page shows the configuration of app2 for app3, too."""
    place = machine.path(file)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text.replace("host-name = app2", f"host-name = {machine.name}"))


def run(machine, command):
    """Run a command as root in its home; fail the test if status or output differ from the page."""
    done = machine.run("bash", "-c", f"cd /root && {{ {command.text}\n}}", check=False)
    printed = done.stdout + done.stderr
    with machine.explained():
        assert (done.returncode, command.prints(printed)) == (command.status, True), (
            f"{command.place} on {machine.name}: {command.text}\nexit status {done.returncode}, expected"
            f" {command.status}; expected:\n{command.output}\nprinted:\n{printed}"
        )


def share_key(machines):
    """Copy the public key of the packages, as the page has people do, from app1 to the other machines."""
    key = machines["app1"].path(KEY)
    for name in MACHINES[1:]:
        place = machines[name].path(KEY)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(key, place)


def share_certificates(machines):
    """Copy the files that the page has people copy from app1 to the other machines."""
    source = machines["app1"].path("/root/ca")
    for name, machine in machines.items():
        place = machine.path("/root/ca")
        place.mkdir(exist_ok=True)
        for file in ("ca.pem", "fleet.pem", "fleet.key", f"{name}.example.com.server.pem"):
            if not (place / file).exists():
                shutil.copy(source / file, place)


def test_the_page_leads_from_rpms_to_a_deployment_on_three_machines(machines):
    for step in steps(PAGE):
        for name in step.machines:
            if name == "EL":  # not tried, as the page states
                continue
            if step.command is None:
                write(machines[name], step.file, step.text)
            elif step.command.text != "echo $?":
                run(machines[name], step.command)
        if step.command is not None and step.command.text.endswith(f">{KEY}"):
            share_key(machines)
        if step.command is not None and "/root/ca/issue" in step.command.text:
            share_certificates(machines)
    assert not machines["app1"].path("/usr/share/zkdeployment/setup.cfg").exists()
