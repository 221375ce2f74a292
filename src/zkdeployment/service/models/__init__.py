"""The bodies of requests and responses of the JSON API; pydantic is used only here and in the routes."""
