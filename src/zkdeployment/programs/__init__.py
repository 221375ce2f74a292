"""The composition root: the only place that builds adapters and hands them out, one module a program.

Here is the one list of features. The first two are capabilities that every fleet has; each of the others can be
taken out: its folder and its name in this list.
"""

from zkdeployment.base.features import install

FEATURES = ("strategies", "publishing", "rollouts", "intents", "checks", "pools", "providers")

install(FEATURES)
