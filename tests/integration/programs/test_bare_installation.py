"""Every verb works, or names the missing library, where only the libraries of a host are installed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.all_features

#: Hides the libraries that the second argument of the process names.
WITHOUT_LIBRARIES = """
import sys

ABSENT = set(sys.argv[2].split(","))


class Absent:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in ABSENT:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Absent)
"""

CHECK = f"""{WITHOUT_LIBRARIES}
from zkdeployment.programs.main import main

sys.argv[1:] = ["config", "check", sys.argv[1]]
main()
"""

#: Calls all verbs in one process, with x for each argument that they demand; prints those that end abnormally.
CALLS = f"""{WITHOUT_LIBRARIES}
import click
from click.testing import CliRunner

from zkdeployment.base.errors import ZkdeploymentError
from zkdeployment.programs.verbs import program

LONG = {{"sandbox up", "sandbox shell", "sandbox down"}}


def verbs(verb, context):
    if isinstance(verb, click.Group):
        for name in verb.list_commands(context):
            below = verb.get_command(context, name)
            yield from verbs(below, click.Context(below, context, name))
    else:
        yield context.command_path.split()[1:], verb


def arguments(verb):
    for parameter in verb.params:
        names = parameter.opts
        if "--zookeeper" in names:
            yield from ("--zookeeper", sys.argv[1])
        elif isinstance(parameter, click.Argument):
            yield from ["x"] * (max(parameter.nargs, 1) if parameter.required else 0)
        elif parameter.required or "--reason" in names:
            yield from (names[0], next(iter(getattr(parameter.type, "choices", ())), "x"))


for words, verb in verbs(program, program.make_context("zkdeployment", [], resilient_parsing=True)):
    if " ".join(words) not in LONG:
        error = CliRunner().invoke(program, [*words, *arguments(verb)]).exception
        if not isinstance(error, (SystemExit, ZkdeploymentError, type(None))):
            print(*words, repr(error))
        elif "library" in str(error):
            print(*words, "needs", str(error).partition("library ")[2].partition(",")[0], file=sys.stderr)
"""

#: The modules of all libraries that only extras install.
ABSENT = (
    "ansible,ansible_runner,argon2,authlib,fastapi,jinja2,jmespath,joserfc,lsprotocol,multipart,pydantic,pygls,"
    "python_multipart,starlette,testcontainers,uvicorn"
)


def test_no_verb_fails_with_a_stack_trace_for_a_missing_library(zookeeper: str, tmp_path: Path):
    argv = [sys.executable, "-c", CALLS, zookeeper, ABSENT]
    directories = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
    done = subprocess.run(
        argv, env=os.environ | directories, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == ""
    needed = dict(line.rsplit(" needs ", 1) for line in done.stderr.splitlines() if " needs " in line)
    assert needed["user list"] == "argon2"
    assert "language-server" in needed
    assert "status" not in needed


def test_the_configuration_of_a_host_is_checked_without_the_libraries_of_extras(tmp_path: Path):
    file = tmp_path / "host.cfg"
    file.write_text(
        f"[zkdeployment]\nhost-id = one\nhost-name = one\nrun-directory = {tmp_path}\npackages = none\n"
    )
    done = subprocess.run([sys.executable, "-c", CHECK, file, ABSENT], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "host-id = one" in done.stdout
