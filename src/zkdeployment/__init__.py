"""Push-button, git-driven deployment for fleets of RPM hosts, coordinated by ZooKeeper."""
