"""Servers and networks that tests start: PostgreSQL, Redis, an object store, hosts as network namespaces."""
