#!/usr/bin/env python3
"""A complete bridge, whose monitoring system is itself: it keeps each check in a file and runs the plugins.

bridge.py SERVER USER KEY-FILE CHECKS PLUGINS
"""

import json
import socket
import subprocess
import sys
import time
from pathlib import Path

import urllib3

server, user, key_file, checks, plugins = sys.argv[1], sys.argv[2], *map(Path, sys.argv[3:])
headers = urllib3.make_headers(basic_auth=f"{user}:{key_file.read_text().strip()}")
headers |= {"Zkdeployment-Bridge": f"{socket.gethostname()}:{checks}"[-200:]}
http = urllib3.PoolManager(headers=headers, retries=False)  # a second list would lack what a lost one had


def ask(method, path, body=None):
    """Return the answer of the service; nothing for 404 and 409, because the instance has moved on."""
    response = http.request(method, f"{server}/deployments/{path}", json=body)
    if response.status not in (200, 404, 409):
        raise urllib3.exceptions.HTTPError(f"{method} {path}: status {response.status}")
    return response.json() if response.status == 200 else None


def deploy(instance):
    """Do the task of an instance and answer. The effect is the same if this is done twice."""
    details = ask("GET", f"id/{instance}") or {"task": "delete", "config_id": None}
    problem = ""
    if details["task"] != "rollout":
        (checks / instance).unlink(missing_ok=True)
    elif details["command"] not in {plugin.name for plugin in plugins.iterdir()}:
        problem = f"there is no plugin {details['command']}"
    else:
        (checks / ".new").write_text(json.dumps(details))
        (checks / ".new").replace(checks / instance)
    answer = {"config_id": details["config_id"], "reason": problem}
    ask("PATCH", f"id/{instance}/{'failed' if problem else 'success'}", answer)


def synchronize():
    """Make the files those that the service wants, whatever was lost; return the instances that have changed."""
    deployed = ask("GET", f"monitoring/{user}/active")
    waiting = set(ask("GET", f"monitoring/{user}/all")["deploymentsList"])
    wanted, known = deployed["configurations"], waiting | set(deployed["deploymentsList"])
    present = {file.name: json.loads(file.read_text())["config_id"] for file in checks.glob("*-*")}
    unknown = present.keys() - known - set(deployed["deprovision_failed"])
    if 1 < len(unknown) > 0.3 * len(present) and not deployed["removal_allowed"]:
        raise urllib3.exceptions.HTTPError(f"{len(unknown)} checks are unknown: has the service lost its content?")
    for instance in unknown:
        (checks / instance).unlink()
    return {instance for instance in known if instance in waiting or present.get(instance) != wanted[instance]}


def run(results):
    """Run each plugin whose interval is over, and report; return whether all results count.

    A report is also a sign of life.
    """
    for file in checks.glob("*-*"):
        details, last = json.loads(file.read_text()), results.get(file.name)
        if last is None or last["config_id"] != details["config_id"]:
            last = {"state": "", "since": 0, "ran": 0}
        if time.time() >= last["ran"] + details["interval"]:
            plugin = [plugins / details["command"], *details["arguments"]]
            ended = subprocess.run(plugin, capture_output=True, text=True, check=False)
            state = {0: "ok", 1: "warning", 2: "critical"}.get(ended.returncode, "unknown")
            since = last["since"] if state == last["state"] else time.time()
            results[file.name] = {
                "state": state,
                "output": ended.stdout.strip(),
                "since": since,
                "config_id": details["config_id"],
                "ran": time.time(),
            }
    keys = ("state", "output", "since", "config_id")
    body = {file.name: {key: results[file.name][key] for key in keys} for file in checks.glob("*-*")}
    return not ask("PUT", f"monitoring/{user}/results", body)["ignored"]


results, is_synchronized = {}, False
while True:
    try:
        changed = ask("GET", f"monitoring/{user}")["deploymentsList"] if is_synchronized else synchronize()
        for instance in changed:
            deploy(instance)
        is_synchronized = run(results)
    except urllib3.exceptions.HTTPError as error:
        is_synchronized = False
        print(error, file=sys.stderr, flush=True)
    time.sleep(1)
