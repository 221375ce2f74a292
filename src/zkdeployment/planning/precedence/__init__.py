"""The order between services: which deployments of a publication wait for those of other services or hosts."""
