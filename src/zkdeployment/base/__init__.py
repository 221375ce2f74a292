"""Errors, text, log, the machine, daemons, and the values that all capabilities share."""

#: The names of the installed features, which ``programs`` sets. The module ``features`` loads the features;
#: agents and checks of hosts do not need it.
installed_features: tuple[str, ...] = ()
