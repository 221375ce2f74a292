"""Histories of fleets, and a checker that knows only the promises of the manual."""
