"""``zkdeployment rollout``: the group of verbs; each verb or kind of verb has a module of its own."""

import click

from zkdeployment.cli.shared.verb_group import LazyVerb, LazyVerbGroup

_VERBS = {
    "abort": LazyVerb("rollout.directives", "End the rollout as failed, which stops the fleet.", "abort"),
    "pause": LazyVerb("rollout.directives", "Start no further hosts in the rollout.", "pause"),
    "promote": LazyVerb("rollout.directives", "Let a group begin that waits to be promoted.", "promote"),
    "resume": LazyVerb("rollout.directives", "Continue a paused rollout.", "resume"),
    "show": LazyVerb("rollout.show", "Show the groups and hosts of a rollout."),
    "simulate": LazyVerb("rollout.simulate", "Show the order and the outcome of a rollout, without a fleet."),
}


@click.group(name="rollout", cls=LazyVerbGroup, verbs=_VERBS)
def command() -> None:
    """Simulate, watch and direct rollouts: deployments by groups of hosts in the order of a strategy.

    \b
    Example:
      zkdeployment rollout simulate strategy.yaml --hosts hosts.yaml
      zkdeployment rollout show --watch
      zkdeployment rollout promote compute-nodes --reason 'the canaries look good'
    """
