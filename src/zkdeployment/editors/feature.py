"""The contributions of editors to the frames."""

from zkdeployment.base.features import Feature, value_in
from zkdeployment.cli.places import LazyVerb, Subject, VerbPlaces
from zkdeployment.service.places import ServicePlaces

FEATURE = Feature(
    "editors",
    (
        ServicePlaces(page_routers=value_in(".editors.pages", "ROUTERS")),
        VerbPlaces(
            {
                "language-server": LazyVerb(
                    ".editors.verbs",
                    "Serve an editor: problems, completion and links in trees.",
                    "language_server",
                    Subject.AUTHORING,
                ),
                "schemas": LazyVerb(
                    ".editors.verbs", "Print the JSON schemas of documents.", "schemas", Subject.AUTHORING
                ),
            }
        ),
    ),
)
