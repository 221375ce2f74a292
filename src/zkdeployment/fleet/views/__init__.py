"""The status of services: which hosts have which deployments in which version."""
