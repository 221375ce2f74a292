"""From a publication to a converged host: the agent, its plans, steps, packages, scripts and files."""
