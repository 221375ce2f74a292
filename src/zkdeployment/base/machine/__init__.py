"""The machine: processes, files, systemd, mail and the clock. Other capabilities reach it only from here."""
