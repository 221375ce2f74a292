"""The composition root, the only place that builds adapters and passes them on: one module for each program.

The only list of features is in this module. The first three are capabilities that every fleet has; each other
feature can be removed: delete its folder, and its name in this list.
"""

from zkdeployment import base

FEATURES = (
    "strategies",
    "publishing",
    "service",
    "rollouts",
    "promotion",
    "intents",
    "checks",
    "pools",
    "providers",
    "editors",
)

base.installed_features = FEATURES
