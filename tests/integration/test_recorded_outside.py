"""The verbs, the operations of the API, the pages and the configuration are those of recordings."""

import json
import os
import shlex

from support.commands import invoke
from support.outside import demanding, operations, pages, verbs
from support.recordings import values

#: The keys that have no default, in a file with all sections.
NEEDED = {
    "zkdeployment": {"host-id": "h1", "host-name": "h1.example.com", "run-directory": "/run/agent"},
    "sync": {"url": "/srv/tree.git", "tree-directory": "/srv/tree"},
    "coordinate": {},
    "checks": {},
    "server": {},
    "nagios": {
        "server": "http://deploy.example.com",
        "user": "nagios1",
        "key-file": "/etc/key",
        "objects": "/etc/nagios/objects",
        "verify": "/bin/true",
        "reload": "/bin/true",
    },
    "pools": {},
}


def check(file, sections):
    """Return what ``config check`` answers to a file with these sections."""
    lines = [
        line for name, keys in sections.items() for line in (f"[{name}]", *(f"{k} = {v}" for k, v in keys.items()))
    ]
    file.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return invoke("config", "check", file, "-o", "json")


def test_verbs_and_their_options_are_the_recorded_ones(recorded):
    recorded("verbs", verbs())


def test_operations_of_the_api_are_the_recorded_ones(recorded):
    recorded("api", operations())


def test_pages_and_forms_are_the_recorded_ones(recorded):
    recorded("pages", pages())


def test_keys_of_the_configuration_have_the_recorded_defaults_and_refuse_other_forms(recorded, tmp_path):
    done = check(tmp_path / "all.cfg", NEEDED)
    assert done.returncode == 0, done.stderr
    keys = json.loads(done.stdout)
    facts = [*values(keys)]
    for section in NEEDED:
        done = check(tmp_path / "wrong.cfg", {**NEEDED, section: dict.fromkeys(keys[section], "-7 ?")})
        lines = done.stderr.replace(str(tmp_path / "wrong.cfg"), "FILE").splitlines()
        facts += [
            f"{section}: exit code = {done.returncode}",
            *sorted(f"{section}: {line.strip()}" for line in lines),
        ]
    recorded("configuration", facts)


#: Files for the command lines, by name.
FILES = {
    "good.cfg": "[zkdeployment]\nhost-id = h1\nhost-name = h1\nrun-directory = /run/agent\n",
    "bad.cfg": "[zkdeployment]\nhots-id = h1\n",
    "away.cfg": (
        "[zkdeployment]\nhost-id = h1\nhost-name = h1\nrun-directory = FILES/run\nroot = FILES/root\n"
        "zookeeper = 127.0.0.1:1\n"
    ),
    "good/tree.zk": "/shop : shop\n  version = '1'\n  /deploy\n    /h1\n",
    "bad/tree.zk": "/shop : shop\n  version = \n",
    "warned/tree.zk": "/shop : shop\n  /deploy\n    /h1\n      n = 0\n",
    "strategy.yaml": (
        "schema: shipyard/DeploymentStrategy/v1\nmetadata: {name: deployment-strategy}\ndata:\n  groups:\n"
        "    - name: all\n      critical: true\n      depends_on: []\n      selectors: []\n"
        "      success_criteria: {percent_successful_nodes: 100}\n"
    ),
    "hosts.yaml": "h1: {}\nh2: {}\n",
    "pools.yaml": "schema: zkdeployment/Pools/v1\nmetadata: {name: pools}\ndata: {nodepools: 3}\n",
}

#: Command lines that need no fleet; FILES is the directory of the files.
COMMANDS = """
--no-such-option
no-such-verb
version
config check FILES/good.cfg
config check FILES/bad.cfg
config check FILES/none.cfg
lint FILES/good
lint FILES/bad
lint FILES/none
lint FILES/warned
lint --strict FILES/warned
lint FILES/pools.yaml
lint FILES/strategy.yaml
rollout simulate FILES/strategy.yaml --hosts FILES/hosts.yaml
rollout simulate FILES/strategy.yaml --hosts FILES/hosts.yaml --deploy-fails h1
rollout simulate FILES/pools.yaml --hosts FILES/hosts.yaml
rollout simulate FILES/none.yaml --hosts FILES/hosts.yaml
agent FILES/bad.cfg
sync FILES/bad.cfg
sync FILES/good.cfg
coordinate FILES/bad.cfg
serve FILES/bad.cfg
pools FILES/bad.cfg
nagios FILES/bad.cfg
nagios FILES/good.cfg
monitor FILES/none.cfg
monitor FILES/away.cfg
monitor --cluster -z 127.0.0.1:1
status --config FILES/away.cfg
status -z 127.0.0.1:1
status -z nonsense:nonsense
status -o xml
why h1 -z 127.0.0.1:1
stop -z 127.0.0.1:1 --reason why
provide -z 127.0.0.1:1 /a/providers host:1
completion bash
completion cmd
sandbox status -d FILES/none
"""


def outcome(line, files):
    """Return the exit code of a command line and the first lines of what it prints."""
    done = invoke(*(word.replace("FILES", str(files)) for word in shlex.split(line)))
    texts = {"error": done.stderr, "output": done.stdout if done.returncode else ""}
    for name, text in texts.items():
        for printed in [said for said in text.splitlines() if said and not said.startswith(("Usage:", "Try "))][
            :2
        ]:
            yield f"{line}: {name}: {printed.replace(str(files), 'FILES')}"
    yield f"{line}: exit code = {done.returncode}"


def test_exit_codes_and_first_lines_of_errors_are_the_recorded_ones(recorded, tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith("ZKDEPLOYMENT_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text.replace("FILES", str(tmp_path)), encoding="utf-8")
    lines = COMMANDS.strip().splitlines()
    recorded("exit-codes", (fact for line in [*lines, *demanding()] for fact in outcome(line, tmp_path)))
