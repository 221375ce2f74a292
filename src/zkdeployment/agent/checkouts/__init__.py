"""Checkouts of software from version control: a module for each system, and the directories that hold checkouts.

Reading trees from version control belongs into ``adapters.git`` and ``adapters.svn``.
"""
