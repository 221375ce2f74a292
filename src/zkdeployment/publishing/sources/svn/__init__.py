"""Reads the tree from a Subversion repository; checkouts of software belong into ``adapters.checkouts``."""
