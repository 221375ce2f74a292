"""``zkdeployment intent``: the group of verbs about deployment intent groups and clusters."""

import click

from zkdeployment.cli.places import LazyVerb
from zkdeployment.cli.verb_group import LazyVerbGroup

_VERBS = {
    "adopt": LazyVerb(".intents.verbs.acts", "Put deployed services under an intent, unchanged.", "adopt"),
    "apply": LazyVerb(".intents.verbs.acts", "Deploy the network intents of a cluster.", "apply"),
    "approve": LazyVerb(".intents.verbs.acts", "Approve the content of a group.", "approve"),
    "diff": LazyVerb(".intents.verbs.acts", "Show what changed since the last approval.", "diff"),
    "history": LazyVerb(".intents.verbs.listing", "Show who approved, began and ended what.", "history"),
    "instances": LazyVerb(".intents.verbs.listing", "List the instances of an intent.", "instances"),
    "instantiate": LazyVerb(".intents.verbs.acts", "Deploy the services of an approved group.", "instantiate"),
    "list": LazyVerb(".intents.verbs.listing", "List all intents with their states.", "list_intents"),
    "release": LazyVerb(".intents.verbs.acts", "Deploy services that left their intent.", "release"),
    "resume": LazyVerb(".intents.verbs.acts", "End the stop of a failed group.", "resume"),
    "rollback": LazyVerb(".intents.verbs.acts", "Go back to the approved content of an instance."),
    "show": LazyVerb(
        ".intents.verbs.listing", "Show the document, the state and the approval of an intent.", "show"
    ),
    "status": LazyVerb(".intents.verbs.listing", "Show the resources of an intent and their statuses.", "status"),
    "terminate": LazyVerb(".intents.verbs.acts", "Undeploy the services of a group or a cluster.", "terminate"),
}


@click.group(name="intent", cls=LazyVerbGroup, verbs=_VERBS)
def command() -> None:
    """Approve, instantiate and terminate groups of services, and show their status.

    The services that an intent governs are deployed only while the intent is Instantiated, or, for a cluster,
    Applied. A SUBJECT is a deployment intent group, PROJECT/APP/VERSION/NAME, or a cluster with network intents,
    PROVIDER/CLUSTER. Acts are commits in the branch of the tree; they take effect when the syncer publishes them.

    \b
    Example:
      zkdeployment intent list
      zkdeployment intent approve p1/store/v1/shop --reason 'tested in the laboratory'
      zkdeployment intent instantiate p1/store/v1/shop --reason 'the shop opens' --wait --timeout 600
      zkdeployment intent status p1/store/v1/shop
    """
