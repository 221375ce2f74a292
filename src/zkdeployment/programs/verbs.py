"""The command line: the table of verbs, and the program that parses the arguments.

Each verb is in a module of its own, which is imported only when the verb is called.
"""

from __future__ import annotations

import click

from zkdeployment.cli.verb_group import LazyVerb, LazyVerbGroup

VERBS = {
    "agent": LazyVerb("programs.agent_verb", "Run the host agent in the foreground."),
    "checks": LazyVerb("checks.verbs.checks", "Show and change checks, the monitoring of services."),
    "completion": LazyVerb("cli.verbs.completion", "Print the completion script for bash, zsh or fish."),
    "config": LazyVerb("programs.config_verb", "Check a configuration file."),
    "coordinate": LazyVerb(
        "programs.daemon_verbs", "Run a coordinator of rollouts in the foreground.", "coordinate"
    ),
    "filter": LazyVerb(
        "programs.daemon_verbs", "Run a filter: keep a list of the instances in service.", "filter_instances"
    ),
    "forget": LazyVerb("cli.verbs.stops", "Forget hosts that were removed permanently.", "forget_hosts"),
    "history": LazyVerb("cli.verbs.history", "Show past publications and their outcome."),
    "hold": LazyVerb("cli.verbs.stops", "Hold all hosts until the next push.", "hold_fleet"),
    "intent": LazyVerb("intents.verbs.intent", "Approve, instantiate and terminate groups of services."),
    "lint": LazyVerb("cli.verbs.lint", "Check tree files."),
    "locks": LazyVerb("cli.verbs.locks", "Show the holders of locks and the waiting hosts; release a lock."),
    "monitor": LazyVerb("programs.monitor_verb", "Check this host or the fleet for Nagios."),
    "nagios": LazyVerb("programs.daemon_verbs", "Run the bridge of a Nagios in the foreground.", "nagios"),
    "node": LazyVerb("pools.verbs.groups", "Show and change the nodes of host pools.", "node"),
    "plan": LazyVerb("cli.verbs.plan", "Show what hosts would do, before anything is published."),
    "pool": LazyVerb("pools.verbs.groups", "Show and fill host pools.", "pool"),
    "pools": LazyVerb("programs.daemon_verbs", "Run a worker of host pools in the foreground.", "pools"),
    "provide": LazyVerb("providers.verbs", "Register an instance of a service while a command runs.", "provide"),
    "providers": LazyVerb("providers.verbs", "Show the instances of a service that are in service.", "providers"),
    "quarantine": LazyVerb("cli.verbs.quarantine", "Forbid a version in the whole fleet, or allow it again."),
    "resume": LazyVerb("cli.verbs.stops", "End a stop or a hold.", "resume_fleet"),
    "rollback": LazyVerb("cli.verbs.rollback", "Commit the tree of an earlier revision."),
    "rollout": LazyVerb("rollouts.verbs", "Simulate, watch and direct rollouts by a strategy."),
    "sandbox": LazyVerb("sandbox.verbs", "Run a throw-away fleet on this machine."),
    "serve": LazyVerb(
        "programs.daemon_verbs", "Run the service: pages for people, an HTTP API for programs.", "serve"
    ),
    "services": LazyVerb("cli.verbs.services", "Show services: the version and state of each deployment."),
    "session": LazyVerb("pools.verbs.groups", "Lease nodes of host pools to tenants.", "session"),
    "status": LazyVerb("cli.verbs.status", "Show the fleet: version wanted, version had, state, error."),
    "stop": LazyVerb("cli.verbs.stops", "Stop the whole fleet.", "stop_fleet"),
    "sync": LazyVerb("programs.sync_verb", "Publish the tree from git to ZooKeeper."),
    "tree": LazyVerb("cli.verbs.tree", "Show, read, compare and change the tree."),
    "user": LazyVerb("cli.verbs.user", "Add, list and retire users of the service."),
    "verify": LazyVerb("cli.verbs.verify", "Check the signed publication of the whole fleet."),
    "version": LazyVerb("cli.verbs.version", "Print the version of this program."),
    "why": LazyVerb("cli.verbs.why", "Explain why a host is not at the cluster version."),
}


@click.group(cls=LazyVerbGroup, verbs=VERBS, context_settings={"help_option_names": ["-h", "--help"]})
def program() -> None:
    """Push-button, git-driven deployment for fleets of RPM hosts, coordinated by ZooKeeper.

    Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 refused, 4 not converged, 5 timed out,
    7 ZooKeeper unreachable, 75 an agent that has to be restarted. The monitor uses the codes of Nagios, 0 to 3.

    \b
    Example:
      zkdeployment sandbox up --hosts 3 --samples
      zkdeployment sandbox shell -- zkdeployment status --wait
    """


def run(argv: list[str]) -> int:
    """Run the verb that the arguments name, and return its exit code; report wrong usage."""
    try:
        status = program.main(argv, prog_name="zkdeployment", standalone_mode=False)
    except click.exceptions.Exit as request:
        return request.exit_code
    except click.Abort as abort:
        raise KeyboardInterrupt from abort
    except click.ClickException as error:
        error.show()
        return error.exit_code
    return status if isinstance(status, int) else 0
