"""The bridge beside a Nagios: definitions of checks, results, and the Nagios on this machine."""
