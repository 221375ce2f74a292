"""The steps of a host's plan, each decided from values. ``planner`` puts them in order."""
