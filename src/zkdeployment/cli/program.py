"""The command line: the table of verbs, and the program that parses the arguments.

Each verb is in a module of its own, which is imported only when the verb is called.
"""

from __future__ import annotations

import click

from zkdeployment.cli.shared.verb_group import LazyVerb, LazyVerbGroup

VERBS = {
    "agent": LazyVerb("agent", "Run the host agent in the foreground."),
    "checks": LazyVerb("checks.checks", "Show and change checks, the monitoring of services."),
    "completion": LazyVerb("completion", "Print the completion script for bash, zsh or fish."),
    "config": LazyVerb("config", "Check a configuration file."),
    "coordinate": LazyVerb("coordinate", "Run a coordinator of rollouts in the foreground."),
    "filter": LazyVerb("filter", "Run a filter: keep a list of the instances in service."),
    "forget": LazyVerb("fleet.forget", "Forget hosts that were removed permanently."),
    "history": LazyVerb("fleet.history", "Show past publications and their outcome."),
    "hold": LazyVerb("fleet.hold", "Hold all hosts until the next push."),
    "intent": LazyVerb("intent.intent", "Approve, instantiate and terminate groups of services."),
    "lint": LazyVerb("lint", "Check tree files."),
    "locks": LazyVerb("fleet.locks", "Show the holders of locks and the waiting hosts; release a lock."),
    "monitor": LazyVerb("fleet.monitor", "Check this host or the fleet for Nagios."),
    "nagios": LazyVerb("nagios", "Run the bridge of a Nagios in the foreground."),
    "node": LazyVerb("pool.groups", "Show and change the nodes of host pools.", "node"),
    "plan": LazyVerb("plan", "Show what hosts would do, before anything is published."),
    "pool": LazyVerb("pool.groups", "Show and fill host pools.", "pool"),
    "pools": LazyVerb("pools", "Run a worker of host pools in the foreground."),
    "provide": LazyVerb("provide", "Register an instance of a service while a command runs."),
    "providers": LazyVerb("providers", "Show the instances of a service that are in service."),
    "quarantine": LazyVerb("fleet.quarantine", "Forbid a version in the whole fleet, or allow it again."),
    "resume": LazyVerb("fleet.resume", "End a stop or a hold."),
    "rollback": LazyVerb("fleet.rollback", "Commit the tree of an earlier revision."),
    "rollout": LazyVerb("rollout.rollout", "Simulate, watch and direct rollouts by a strategy."),
    "sandbox": LazyVerb("sandbox", "Run a throw-away fleet on this machine."),
    "serve": LazyVerb("serve", "Run the service: pages for people, an HTTP API for programs."),
    "services": LazyVerb("fleet.services", "Show services: the version and state of each deployment."),
    "session": LazyVerb("pool.groups", "Lease nodes of host pools to tenants.", "session"),
    "status": LazyVerb("fleet.status", "Show the fleet: version wanted, version had, state, error."),
    "stop": LazyVerb("fleet.stop", "Stop the whole fleet."),
    "sync": LazyVerb("sync", "Publish the tree from git to ZooKeeper."),
    "tree": LazyVerb("tree.tree", "Show, read, compare and change the tree."),
    "user": LazyVerb("user.user", "Add, list and retire users of the service."),
    "verify": LazyVerb("fleet.verify", "Check the signed publication of the whole fleet."),
    "version": LazyVerb("version", "Print the version of this program."),
    "why": LazyVerb("fleet.why", "Explain why a host is not at the cluster version."),
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
