"""The HTTP API: `/api/v1/…` over `rlclinic.ops`, guarded, and the place where the dashboard and MCP are mounted."""
