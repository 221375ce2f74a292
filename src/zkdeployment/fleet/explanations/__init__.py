"""The explanations of ``zkdeployment why``: why a host is not at the cluster version, and what to do."""
