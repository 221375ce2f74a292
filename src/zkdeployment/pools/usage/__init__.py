"""Who used pools: leases of nodes, nodes held in a time, and waiting times."""
