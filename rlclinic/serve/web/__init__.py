"""The dashboard: pages and static files that the HTTP server hands out; plain ES modules, no build step, nothing from elsewhere."""
