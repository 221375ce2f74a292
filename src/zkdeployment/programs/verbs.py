"""The command line: the table of verbs, and the program that parses the arguments.

Each verb is in a module of its own, which is imported only when the verb is called.
"""

from __future__ import annotations

import click

from zkdeployment.base.features import installed
from zkdeployment.cli.places import LazyVerb, Subject, VerbPlaces
from zkdeployment.cli.verb_group import LazyVerbGroup, without_flags

#: The verbs about the fleet by subject, the common ones first; the features add theirs.
_OF_THE_FLEET = {
    Subject.SEE: {
        "status": LazyVerb(".cli.verbs.status", "Show the fleet: version wanted, version had, state, error."),
        "why": LazyVerb(".cli.verbs.why", "Explain why a host is not at the cluster version."),
        "services": LazyVerb(".cli.verbs.services", "Show services: the version and state of each deployment."),
        "plan": LazyVerb(".cli.verbs.plan", "Show what hosts would do, before anything is published."),
        "logs": LazyVerb(".cli.verbs.logs", "Show the last output of a script."),
        "history": LazyVerb(".cli.verbs.history", "Show past publications and their outcome."),
        "locks": LazyVerb(".cli.verbs.locks", "Show the holders of locks and the waiting hosts; release a lock."),
        "audit": LazyVerb(".cli.verbs.history", "Show the acts of operators and failed logins.", "audit"),
        "inventory": LazyVerb(
            ".cli.verbs.status", "Print the fleet as an inventory of Ansible.", "inventory_command"
        ),
        "verify": LazyVerb(".cli.verbs.verify", "Check the signed publication of the whole fleet."),
        "monitor": LazyVerb(".programs.monitor_verb", "Check this host or the fleet for Nagios."),
    },
    Subject.CHANGE: {
        "stop": LazyVerb(".cli.verbs.stops", "Stop the whole fleet.", "stop_fleet"),
        "hold": LazyVerb(".cli.verbs.stops", "Hold all hosts until the next push.", "hold_fleet"),
        "resume": LazyVerb(".cli.verbs.stops", "End a stop or a hold.", "resume_fleet"),
        "retry": LazyVerb(".cli.verbs.stops", "Let one failed host of a stopped fleet try again.", "retry_host"),
        "rollback": LazyVerb(".cli.verbs.rollback", "Commit the tree of an earlier revision."),
        "cordon": LazyVerb(".cli.verbs.stops", "Put hosts into maintenance.", "cordon_hosts"),
        "uncordon": LazyVerb(".cli.verbs.stops", "End the maintenance of hosts.", "uncordon_hosts"),
        "quarantine": LazyVerb(
            ".cli.verbs.rollback", "Forbid a version in the whole fleet, or allow it again.", "quarantine"
        ),
        "forget": LazyVerb(".cli.verbs.stops", "Forget hosts that were removed permanently.", "forget_hosts"),
        "user": LazyVerb(".cli.verbs.user", "Add, list and retire users of the service."),
    },
    Subject.AUTHORING: {
        "init": LazyVerb(".cli.verbs.init", "Write a tree repository to begin with."),
        "lint": LazyVerb(".cli.verbs.lint", "Check tree files."),
        "tree": LazyVerb(".cli.verbs.tree", "Show, read, compare and change the tree."),
    },
    Subject.DAEMONS: {
        "agent": LazyVerb(".programs.agent_verb", "Run the host agent in the foreground."),
        "sync": LazyVerb(".programs.syncer", "Publish the tree from git to ZooKeeper."),
        "serve": LazyVerb(
            ".programs.serve_verb", "Run the service: pages for people, an HTTP API for programs.", "serve"
        ),
    },
    Subject.OTHER: {
        "sandbox": LazyVerb(".sandbox.verbs", "Run a throw-away fleet on this machine."),
        "config": LazyVerb(".programs.config_verb", "Check a configuration file."),
        "completion": LazyVerb(".cli.verbs.completion", "Print the completion script for bash, zsh or fish."),
        "version": LazyVerb(".cli.verbs.completion", "Print the version of this program.", "print_version"),
    },
}


VERBS = {
    **{
        name: verb._replace(subject=subject)
        for subject, verbs in _OF_THE_FLEET.items()
        for name, verb in verbs.items()
    },
    **{name: verb for places in installed(VerbPlaces) for name, verb in places.verbs.items()},
}


#: The words of other tools, each with the way to do the same here.
FOREIGN = {
    "apply": "push to the branch of the tree to publish it; 'zkdeployment plan PATH' shows the effect",
    "deploy": "push to the branch of the tree to publish it; 'zkdeployment plan PATH' shows the effect",
    "describe": "'zkdeployment why HOST' explains a host, 'zkdeployment tree get PATH' prints a node",
    "diff": "'zkdeployment plan PATH' shows what hosts would do, 'zkdeployment tree diff' compares the tree",
    "freeze": "'zkdeployment hold' holds all hosts until the next push, 'zkdeployment stop' until resume",
    "get": "'zkdeployment status' shows hosts, 'zkdeployment services' services, 'zkdeployment tree get' a node",
    "log": "'zkdeployment history' shows publications, 'zkdeployment logs HOST' the output of a script",
    "pause": "'zkdeployment rollout pause' pauses the rollout, 'zkdeployment hold' holds all hosts",
    "ps": "'zkdeployment status' shows hosts, 'zkdeployment services' services",
    "restart": "push a change of the service in the tree, and its script runs again on its hosts",
    "scale": "numbers and targets below /deploy of a service in the tree decide where it runs; push the change",
    "undo": "'zkdeployment rollback' commits the tree of an earlier revision; --dry-run shows the change",
    "unlock": "'zkdeployment locks' lists the locks, 'zkdeployment locks release NAME' releases one",
}


_BEGINNING = """\
Begin here:
  zkdeployment sandbox up --hosts 3 --samples   try everything on a fleet within this machine
  zkdeployment init tree                        begin a fleet of real hosts
  zkdeployment status                           show the fleet that this machine is configured for
  zkdeployment --help                           list all verbs
"""


@click.group(
    cls=LazyVerbGroup,
    verbs=VERBS,
    foreign=FOREIGN,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.pass_context
def program(context: click.Context) -> None:
    """Push-button, git-driven deployment for fleets of RPM hosts, coordinated by ZooKeeper.

    \b
    Example:
      zkdeployment sandbox up --hosts 3 --samples
      zkdeployment sandbox shell -- zkdeployment status --wait

    \b
    Exit codes (the monitor uses those of Nagios, 0 to 3):
      0   done
      1   failed
      2   wrong usage or configuration
      3   refused
      4   not converged, unhealthy, or changes to come
      5   timed out
      7   ZooKeeper cannot be reached
      75  a daemon has to be started again
    """
    if context.invoked_subcommand is None:
        from zkdeployment.cli.terminal import echo_lines  # noqa: PLC0415  verbs start faster without it

        echo_lines(_BEGINNING.rstrip(), err=True)
        context.exit(click.UsageError.exit_code)


def run(argv: list[str]) -> int:
    """Run the verb that the arguments name, and return its exit code; report wrong usage."""
    try:
        status = program.main(argv, prog_name="zkdeployment", standalone_mode=False)
    except click.exceptions.Exit as request:
        return request.exit_code
    except click.Abort as abort:
        raise KeyboardInterrupt from abort
    except click.ClickException as error:
        without_flags(error).show()
        return error.exit_code
    return status if isinstance(status, int) else 0
