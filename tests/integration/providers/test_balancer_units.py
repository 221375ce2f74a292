"""The manual's changes of the filter's unit: systemd accepts them, and they permit what the checks need."""

import re
import shlex
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from support.balancers import environment, program
from support.manual import MANUAL
from zkdeployment.providers.balancers import template_form
from zkdeployment.providers.selection import ProviderSelection

EXAMPLES = MANUAL / "examples" / "load-balancer"
UNIT = MANUAL.parent / "systemd" / "zkdeployment-filter@.service"

#: The configurations as distributions have them: the daemons' users own their logs.
CONFIGURATIONS = {
    "haproxy": (
        "/etc/haproxy/haproxy.cfg",
        """\
global
    user daemon
    stats socket /run/haproxy/admin.sock mode 660 level admin expose-fd listeners
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
frontend web
    bind :80
    default_backend web
""",
    ),
    "nginx": (
        "/etc/nginx/nginx.conf",
        """\
user daemon;
pid /run/nginx.pid;
error_log /var/log/nginx/error.log;
events {}
http {
    access_log /var/log/nginx/access.log;
    include /etc/nginx/conf.d/*.conf;
    server { listen 80; }
}
""",
    ),
}

#: Runs a command as the unit does. Arguments: a directory, the writable paths, the capabilities, the command.
SANDBOX = """
set -e
mount --rbind / "$1"
mount --make-rprivate "$1"
for directory in etc run var/lib var/log; do mount -t tmpfs tmpfs "$1/$directory"; done
cp /etc/passwd /etc/group "$1/etc"
cp -r "$1.etc/." "$1/etc"
mkdir -p "$1/var/lib/nginx" "$1/var/log/nginx"
touch "$1/var/log/nginx/error.log" "$1/var/log/nginx/access.log"
chown daemon "$1"/var/log/nginx/*.log
chmod 640 "$1"/var/log/nginx/*.log
for path in $2; do mount --bind "$1$path" "$1$path"; done
for directory in . etc var/lib var/log; do mount -o remount,bind,ro "$1/$directory"; done
case " $2 " in *" /run "*) ;; *) mount -o remount,bind,ro "$1/run" ;; esac
exec chroot "$1" setpriv --bounding-set "-all$3" --no-new-privs sh -c "$4"
"""


def settings(text):
    """Return the settings of a unit's section, with continued lines in one; the last one of a name counts."""
    lines = re.sub(r"\\\n\s*", " ", text).splitlines()
    return dict(line.split("=", 1) for line in lines if re.match(r"[A-Za-z]+=", line))


@pytest.mark.parametrize("name", ["haproxy", "nginx"])
def test_the_check_of_a_load_balancer_succeeds_with_the_permissions_of_the_unit(name, tmp_path):
    changed = settings((EXAMPLES / f"{name}-filter.conf").read_text())
    words = shlex.split(changed["ExecStart"])
    options = dict(pairwise(words))
    root, (place, text) = tmp_path / "root", CONFIGURATIONS[name]
    for file, content in ((place, text), (options["--file"], "")):
        made = Path(f"{root}.etc") / Path(file).relative_to("/etc")
        made.parent.mkdir(parents=True, exist_ok=True)
        made.write_text(content)
    root.mkdir()
    form = template_form(EXAMPLES / Path(options["--template"]).name)
    selection = ProviderSelection("/in-service/web", "1.4", {"127.0.0.1:8080": {}}, {})
    (tmp_path / "rendered").write_bytes(form.render(selection, form.servers(selection)[0]))
    check = shlex.split(options["--check"])
    libraries = f"LD_LIBRARY_PATH={environment()['LD_LIBRARY_PATH']}"
    checked = shlex.join(["env", libraries, program(check[0]), *check[1:]])
    command = f"cat {tmp_path}/rendered > {options['--file']} && {checked}"
    capabilities = changed.get("CapabilityBoundingSet", "").lower().replace("cap_", ",+").replace(" ", "")
    arguments = [root, changed["ReadWritePaths"], capabilities, command]
    sandbox = ["unshare", "--mount", "--propagation", "private", "sh", "-c", SANDBOX, "sh", *arguments]
    done = subprocess.run(sandbox, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["haproxy", "nginx"])
def test_the_changed_unit_runs_the_command_of_the_unit_with_more_options(name):
    words = shlex.split(settings(UNIT.read_text())["ExecStart"])
    changed = shlex.split(settings((EXAMPLES / f"{name}-filter.conf").read_text())["ExecStart"])
    assert changed[: len(words)] == words
    assert "$OPTIONS" in words


@pytest.mark.parametrize("name", ["haproxy", "nginx"])
def test_systemd_accepts_the_changes_of_the_unit(name, tmp_path):
    unit = tmp_path / "zkdeployment-filter@web.service"
    changes = tmp_path / f"{unit.name}.d" / "override.conf"
    changes.parent.mkdir()
    for file, source in ((unit, UNIT), (changes, EXAMPLES / f"{name}-filter.conf")):
        file.write_text(source.read_text().replace("/opt/zkdeployment/bin", str(Path(sys.executable).parent)))
    checked = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
