"""Checks of what a script learns in: environments and wrappers that it defines, vector environments, tasks and their stages."""
