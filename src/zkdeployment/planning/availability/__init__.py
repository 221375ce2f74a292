"""Whether hosts can install the packages of a publication: demands, available packages, transactions of hosts."""
