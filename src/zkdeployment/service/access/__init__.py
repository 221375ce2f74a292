"""Access to the service: host names, logins, rights, cookies and the headers that browsers obey."""
