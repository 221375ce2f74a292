"""Whether hosts can install the packages of a publication: what it wants, what there is, and what fits hosts."""
