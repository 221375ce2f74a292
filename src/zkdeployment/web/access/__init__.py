"""Who may use the service, and from where: hosts, logins, rights, cookies and the headers that browsers obey."""
