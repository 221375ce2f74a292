"""The adapters of host pools: SSH to nodes, and Ansible."""
