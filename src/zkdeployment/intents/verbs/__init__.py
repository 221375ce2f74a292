"""The verbs about intents: what is deployed only after an approval."""

from zkdeployment.cli.verb_group import LazyVerb

VERBS = {"intent": LazyVerb("intents.verbs.intent", "Approve, instantiate and terminate groups of services.")}
