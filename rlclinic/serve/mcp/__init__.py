"""The operations as tools for coding agents, over the Model Context Protocol. Needs `rlclinic[mcp]`; nothing else imports it."""
