"""The operating systems of hosts: their releases and kernels, and the reboots that are due."""
